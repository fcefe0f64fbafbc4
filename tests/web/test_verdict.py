"""Tests a verdict in the order in which a reader needs it."""

from __future__ import annotations

from lockstep.web import verdict

PARTITIONS = {11: 3}


def found(kind: str, *, success: bool, **more: object) -> dict:
    config = {"type": kind, "kwargs": {"column": "n"}, "severity": more.pop("severity", "critical")}
    quarantined = more.pop("quarantined", None)
    result = {"expectation_config": config, "success": success, "result": more}
    return result | ({"quarantined": quarantined} if quarantined else {})


def test_what_fails_comes_first_with_the_places_of_its_rows():
    rows = [{"_stream": 11, "_offset": offset, "n": -1} for offset in range(20)]
    results = [
        found("holds", success=True),
        found("warns", success=False, severity="warning", unexpected_count=1),
        found("put_aside", success=False, quarantined=2, unexpected_count=2),
        found("breaks", success=False, unexpected_count=25, partial_unexpected_index_list=rows),
    ]
    told = verdict.expectations({"result": {"results": results}}, PARTITIONS)
    assert [each["says"] for each in told] == ["fails", "warns", "quarantines", "holds"]
    assert told[0]["places"] == [(3, offset) for offset in range(verdict.PLACES)]
    assert told[0]["more"] == 25 - verdict.PLACES
    assert told[0]["columns"] == "n"


def test_a_verdict_without_a_suite_or_none_at_all_says_nothing():
    for nothing in (None, {"result": None}, {"result": {"success": True, "committed_by_tasks": {}}}):
        assert verdict.expectations(nothing, PARTITIONS) == []
        assert verdict.refusals(nothing) == []
