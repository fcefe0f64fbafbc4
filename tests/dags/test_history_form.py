"""Tests the form of a history run as Airflow checks it, and the text that a reviewer sees."""

from __future__ import annotations

import pytest
from airflow.sdk import ParamsDict
from airflow.sdk.exceptions import ParamValidationError

from lockstep.airflow import showing
from lockstep.airflow.form import fields
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.person import Person
from lockstep.steps.history import Called

FOUND = {
    "added": 0,
    "changed": 1,
    "removed": 1,
    "unchanged": 7,
    "targets": {"public.orders": {"added": 0, "changed": 1, "removed": 1, "unchanged": 7}},
    "rejects": {"before": 2, "after": 0},
    "samples": [
        {"target": "public.orders", "kind": "changed", "before": {"id": "a|b"}, "after": {"id": "<img src=x>"}},
        {"target": "public.orders", "kind": "removed", "before": {"id": "x" * 900}, "after": None},
    ],
}


def form(**values: object) -> ParamsDict:
    made = ParamsDict(dict(fields(approval=False)))
    for name, value in values.items():
        made[name] = value
    return made


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"action": "replay", "from_time": "2026-05-01T10:00:00+02:00", "until_time": "2026-05-01T12:00:00Z"},
        {"action": "fill", "from_offsets": ["0:0", "11:1200"], "partition": 0},
        {"action": "skip", "reason": "r", "until_time": None},
    ],
)
def test_the_form_takes_what_belongs_in_it(values):
    form(**values).validate()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("action", "rewind"),
        ("from_time", "tomorrow"),
        ("from_offsets", ["0"]),
        ("until_offsets", ["0:1,1:2"]),
        ("partition", -1),
        ("partition", "0"),
        ("approval", "yes"),
        ("reason", None),
    ],
)
def test_the_form_itself_refuses_what_no_field_may_hold(field, value):
    with pytest.raises(ParamValidationError, match=field):
        form(**{field: value}).validate()


def test_the_box_for_approval_is_ticked_where_the_pipeline_says_so():
    assert [fields(approval=each)["approval"].value for each in (True, False)] == [True, False]


def test_a_reviewer_sees_stretches_counts_and_rows_and_no_row_is_taken_for_markup():
    window = StreamRange(1, OffsetRange(TopicPartition("orders.v1", 0), 10, 20))
    shown = showing.difference(
        [Called(7, "replay", is_closed=True, person=Person("ada", "r"), windows=(window,), difference=FOUND)],
        {"replay": "old rows out, new rows in"},
    )
    assert "### replay\n\nOld rows out, new rows in." in shown
    assert r"| orders.v1-0 \[10, 20\) | 10 |" in shown
    assert "| public.orders | 0 | 1 | 1 | 7 |" in shown
    assert "Rejects: 2 before, 0 after." in shown
    assert r'{"id": "a\|b"}' in shown
    assert "&lt;img" in shown
    assert "<" not in shown
    assert len(max(shown.splitlines(), key=len)) < showing.LONGEST + 100
    assert shown.endswith(showing.NOTHING)


def test_a_loss_is_shown_beside_the_position_and_the_logs_start():
    row = {"partition": "orders.v1-0", "from_offset": 3, "until_offset": 9, "position": 3, "log_start": 9}
    assert "| orders.v1-0 | 3 | 9 | 3 | 9 |" in showing.losses([row])
