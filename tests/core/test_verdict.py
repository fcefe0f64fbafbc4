"""Tests a verdict in the order in which a reader needs it."""

from __future__ import annotations

from typing import Any

from lockstep.core.proof import verdict

PARTITIONS = {11: 3}


def found(kind: str, *, success: bool, **more: Any) -> dict:
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
    assert told[0]["places"] == [(3, offset) for offset in range(verdict.PLACES_PER_EXPECTATION)]
    assert told[0]["more"] == 25 - verdict.PLACES_PER_EXPECTATION
    assert told[0]["columns"] == "n"


def test_a_verdict_without_a_suite_or_none_at_all_says_nothing():
    for nothing in (None, {"result": None}, {"result": {"success": True, "committed_by_tasks": {}}}):
        assert verdict.expectations(nothing, PARTITIONS) == []
        assert verdict.refusals(nothing) == []
        assert verdict.lines(nothing, PARTITIONS) == ["the verdict passes"]


def test_a_log_has_each_expectation_that_does_not_hold_and_no_value_of_a_record():
    rows = [{"_stream": 11, "_offset": 7, "n": "secret"}]
    results = [
        found("holds", success=True),
        found("warns", success=False, severity="warning", unexpected_count=1),
        found("breaks", success=False, unexpected_count=25, partial_unexpected_index_list=rows),
        found("no_count", success=False, observed_value=0),
    ]
    reason = "breaks on n failed for 25 rows"
    given = {"success": False, "result": {"results": results, "refusals": [reason]}}
    assert verdict.lines(given, PARTITIONS) == [
        "the verdict refuses the batch: 1 of 4 expectations hold",
        "  fails: breaks(n): 25 rows",
        "  fails: no_count(n)",
        "  warns: warns(n): 1 row",
        "  refused: breaks on n failed for 25 rows",
    ]
    summary = verdict.summary(given, PARTITIONS)
    assert "secret" not in str(summary)
    assert (summary["success"], summary["refusals"]) == (False, [reason])
    assert summary["expectations"][0] == {"type": "breaks", "columns": "n", "says": "fails", "failing": 25}
