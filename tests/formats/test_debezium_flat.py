"""Tests that a row without an envelope is read as one, whatever its columns are called."""

from __future__ import annotations

import pytest

from support.inputs.change_records import change, decoded

COLUMNS = "id bigint, op string, source string, before string, after string"
KEY = {"id": 5}
NONE = {"source": None, "before": None, "after": None}


@pytest.mark.parametrize(
    "row",
    [
        {"op": "d", "source": "web"},
        {"op": "m", "source": "web"},
        {"op": "t", "before": None},
        {"op": "c", "after": None},
        {"op": "c", "after": "then"},
        {"op": "d", "before": "now"},
    ],
)
@pytest.mark.parametrize("added", [{"__deleted": "false"}, {"__op": "u"}, {"__op": "c", "__deleted": False}])
def test_columns_may_be_called_like_all_parts_of_an_envelope(row, added):
    assert decoded({"id": 5} | row | added, KEY, schema=COLUMNS).values == {"id": 5} | NONE | row


def test_a_nested_column_is_no_side_of_an_envelope():
    row = {"id": 5, "op": "c", "after": {"id": 6}, "source": {"at": 1}, "__deleted": "false"}
    assert decoded(row, KEY, schema=COLUMNS).values == {
        "id": 5,
        "op": "c",
        "source": '{"at":1}',
        "before": None,
        "after": '{"id":6}',
    }


def test_such_a_row_that_is_gone_is_a_deletion():
    row = {"id": 5, "op": "c", "source": "web", "__deleted": "true"}
    assert decoded(row, KEY, schema=COLUMNS).deleted


@pytest.mark.parametrize(
    "row",
    [
        {"id": 5, "op": "d", "source": "web"},
        {"id": 5, "op": "m", "source": "web"},
        {"id": 5, "op": "t", "before": None},
        {"id": 5, "op": "d", "before": None, "after": None, "source": None},
        {"id": 5, "op": "c", "source": "web", "after": {"id": 6}},
    ],
)
def test_a_row_that_nothing_is_added_to_is_a_reject_and_no_envelope(row):
    outcome = decoded(row, KEY, schema=COLUMNS)
    assert outcome.reason == "no change record: it has neither an envelope nor __deleted nor __op"
    assert not outcome.deleted


def test_an_envelope_may_lack_its_source():
    without = {name: value for name, value in change("c", after={"id": 5}).items() if name != "source"}
    assert decoded(without, KEY).values == {"id": 5, "name": None}
    gone = {name: value for name, value in change("d", before={"id": 5}).items() if name != "source"}
    assert decoded(gone, KEY).deleted
