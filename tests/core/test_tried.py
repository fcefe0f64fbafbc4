"""Tests the outcome of a trial: records that share a key, and its text."""

from __future__ import annotations

import json

import pytest

from lockstep.core.changes.tried import (
    Deletion,
    Expectation,
    Reject,
    Row,
    SupersededRow,
    Tried,
    Verdict,
    changes_by_key,
    rows_of_table,
    verdict_of,
)
from lockstep.core.pipeline.definition import Upsert

TARGET = Upsert("public.orders", key=("id",))


def staged(line: int, key: str | None, *, deleted: bool = False, ordinal: int = 0) -> dict:
    return {"_offset": line, "_ordinal": ordinal, "_deleted": deleted, "id": key}


def old(line: int, by: int) -> SupersededRow:
    return SupersededRow(line, "public.orders", by)


def gone(line: int, key: str | None) -> Deletion:
    return Deletion(line, "public.orders", {"id": key})


A, B = staged(1, "a"), staged(2, "b")
CASES = {
    "nothing is staged": ([], frozenset(), [], []),
    "each key came once": ([A, B], {(1, 0), (2, 0)}, [], []),
    "the newer of two replaces the older": ([A, staged(2, "a")], {(2, 0)}, [], [old(1, 2)]),
    "the older of two has the higher rank": ([A, staged(2, "a")], {(1, 0)}, [], [old(2, 1)]),
    "a tombstone deletes what came before it": ([A, staged(2, "a", deleted=True)], frozenset(), [gone(2, "a")], [old(1, 2)]),
    "a tombstone of a key that is not there counts": ([staged(1, "a", deleted=True)], frozenset(), [gone(1, "a")], []),
    "of two tombstones the newer counts": (
        [staged(1, "a", deleted=True), staged(2, "a", deleted=True)], frozenset(), [gone(2, "a")], [old(1, 2)],
    ),
    "a row behind a tombstone replaces it": ([staged(1, "a", deleted=True), staged(3, "a")], {(3, 0)}, [], [old(1, 3)]),
    "one key does not touch another": (
        [A, B, staged(3, "a", deleted=True)], {(2, 0)}, [gone(3, "a")], [old(1, 3)],
    ),
    "of the rows of one record each has its own fate": (
        [staged(1, "a"), staged(1, "b", ordinal=1), staged(2, "b")], {(1, 0), (2, 0)}, [], [old(1, 2)],
    ),
    "a truncation takes every older row": (
        [A, B, staged(3, None, deleted=True), staged(4, "b")], {(4, 0)}, [gone(3, None)], [old(1, 3), old(2, 4)],
    ),
    "nothing is replaced where the table is unknown": ([A, staged(2, "a", deleted=True)], None, [gone(2, "a")], []),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "kept", "deletions", "replaced"), CASES.values(), ids=CASES)
def test_the_newest_record_of_a_key_stands_for_it(rows, kept, deletions, replaced):
    assert changes_by_key(TARGET, rows, None if kept is None else frozenset(kept)) == (deletions, replaced)


def test_a_row_is_its_columns_and_knows_its_line():
    found = {"id": "a", "n": 1, "_stream": 1, "_offset": 7, "_ordinal": 0, "_batch": 1}
    (row,) = rows_of_table("public.orders", [found], totals=False)
    assert (row, row.line, row.table) == ({"id": "a", "n": 1}, 7, "public.orders")
    (total,) = rows_of_table("public.orders", [found], totals=True)
    assert (total, total.line) == ({"id": "a", "n": 1}, None)


def test_a_verdict_has_its_refusals_the_suites_results_and_the_error_that_ended_it():
    result = {
        "success": False,
        "expectation_config": {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "n"}},
        "result": {"unexpected_count": 3},
        "quarantined": 2,
    }
    broken = {"success": False, "expectation_config": {"type": "expect_x", "kwargs": {}}, "result": None}
    verdict = verdict_of({"refusals": ["one"], "results": [result, broken]}, ["two"])
    assert verdict == Verdict(
        ("one", "two"),
        (
            Expectation("expect_column_values_to_be_in_set", ("n",), success=False, unexpected=3, quarantined=2),
            Expectation("expect_x", (), success=False),
        ),
    )
    assert not verdict.ok
    assert verdict_of({"success": True, "refusals": []}, []) == Verdict()
    assert verdict_of(None, ["it died"]) == Verdict(("it died",))
    assert Verdict().ok


def test_the_document_is_plain_json():
    found = Tried(
        "orders",
        4,
        "driver",
        [Row({"id": "a"}, "public.orders", 1)],
        [Reject(2, "no JSON")],
        [gone(3, "b")],
        [old(4, 1)],
    )
    assert json.loads(json.dumps(found.document())) == {
        "pipeline": "orders",
        "records": 4,
        "engine": "driver",
        "rows": [{"line": 1, "table": "public.orders", "values": {"id": "a"}}],
        "rejects": [{"line": 2, "reason": "no JSON", "key": None, "value": None}],
        "deletions": [{"line": 3, "table": "public.orders", "key": {"id": "b"}}],
        "superseded": [{"line": 4, "table": "public.orders", "by": 1}],
        "filtered": [],
        "verdict": {"ok": True, "refusals": [], "expectations": []},
    }
    assert found.rows_of("public.orders") == [{"id": "a"}]
    assert found.rows_of("public.others") == []
