"""Tests the form of a history run as Airflow checks it, and the text that a reviewer sees."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Param, ParamsDict  # type: ignore[attr-defined]
from airflow.sdk.definitions.param import ParamValidationError
from jsonschema import FormatChecker

from lockstep.adapters.airflow.names import HAS_RETRY_POLICIES, AirflowFailException, not_retried
from lockstep.airflow import door
from lockstep.airflow.dag import PARAMS
from lockstep.airflow.door import RunRefused, refused_at_once
from lockstep.airflow.history import showing
from lockstep.airflow.history.form import fields, reason_field
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.planning.history import HistoryAction, HistoryRun, read_form
from lockstep.core.planning.requests import Rehearsal, Request
from lockstep.core.planning.widened import Widened
from lockstep.core.states import Lane

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


def form(**values: Any) -> ParamsDict:
    made = ParamsDict(dict(fields(approval=False)))
    for name, value in values.items():
        made[name] = value
    return made


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"action": "replay", "from_time": "2026-05-01T10:00:00+02:00", "until_time": "2026-05-01T12:00:00Z"},
        {"action": "fill", "from_offsets": ["0:0", "11:1200"], "topic": "orders.eu", "partition": 0},
        {"action": "skip", "reason": "r", "until_time": None},
        {"reason": None, "from_offsets": None, "preview": None, "approval": None, "retry": None, "take_over": None},
        {"action": "replay", "from_offsets": ["0:0", ""]},
        {"action": "replay", "from_time": "2026-05-01T10:00:00.000Z"},
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
        ("topic", "orders eu"),
        ("partition", -1),
        ("partition", "0"),
        ("approval", "yes"),
        ("reason", 7),
        ("action", None),
    ],
)
def test_the_form_itself_refuses_what_no_field_may_hold(field, value):
    with pytest.raises(ParamValidationError, match=field):
        form(**{field: value}).validate()


@pytest.mark.parametrize("checks_formats", [True, False])
@pytest.mark.parametrize(
    "value", ["tomorrow", "2026-05-01", "2026-05-01T10:00Z", "2026-05-01T10:00:00", "2026-05-01 10:00:00Z"]
)
def test_a_moment_is_judged_alike_wherever_rfc3339_validator_is_installed_or_not(monkeypatch, checks_formats, value):
    if not checks_formats:
        monkeypatch.delitem(FormatChecker.checkers, "date-time")
    for moment in ("2026-05-01T10:00:00Z", "2026-05-01T10:00:00.000Z", "2026-05-01T10:00:00+02:00"):
        form(from_time=moment).validate()
    with pytest.raises(ParamValidationError, match="from_time"):
        form(from_time=value).validate()


def is_required(param: Param) -> bool:
    """Returns True if Airflow 3.3's form marks the field, and keeps its button dead while it is empty.

    The rule is that of `isParamRequired` in Airflow's own interface.
    """
    kind = param.schema.get("type")
    return bool(kind) and not (isinstance(kind, list) and "null" in kind)


@pytest.mark.parametrize(
    ("made", "required"), [(fields(approval=False), {"action"}), (fields(approval=True), {"action"}), (PARAMS, set())]
)
def test_a_form_opens_ready_and_marks_no_field_that_may_stay_empty(made, required):
    assert {name for name, param in made.items() if is_required(param)} == required
    assert all(made[name].value not in {None, ""} for name in required), "no field is red, and the button is alive"
    ParamsDict(made).validate()


def test_the_form_opens_on_a_fill_and_offers_no_null():
    action = fields(approval=False)["action"]
    assert action.value == "fill"
    others = [each for each in HistoryAction if each != HistoryAction.ADMIT_LATE]
    assert action.schema["enum"] == others
    assert action.schema["values_display"].keys() == set(others)


def test_late_records_are_admitted_only_where_a_pipeline_has_windows():
    action = fields(approval=False, windows=True)["action"]
    assert action.schema["enum"] == list(HistoryAction)
    assert action.schema["values_display"].keys() == set(HistoryAction)
    with pytest.raises(ParamValidationError, match="action"):
        form(action="admit-late").validate()


def test_the_fields_that_most_runs_need_are_unfolded_and_the_rest_is_one_section():
    folded = {name for name, param in fields(approval=False).items() if param.schema.get("section")}
    assert folded == {"digest", "from_offsets", "until_offsets", "topic", "partition", "retry", "take_over"}
    assert not [param for param in PARAMS.values() if param.schema.get("section")]


def test_a_live_run_takes_its_boxes_also_as_null():
    for name in PARAMS:
        made = ParamsDict(dict(PARAMS))
        made[name] = None
        made.validate()
        with pytest.raises(ParamValidationError, match=name):
            made[name] = "yes"


def test_a_reviewer_may_approve_without_a_reason():
    assert not is_required(reason_field("why"))


@pytest.mark.skipif(not HAS_RETRY_POLICIES, reason="Airflow before 3.3 has no retry policies")
def test_a_run_that_contradicts_itself_ends_in_one_line_and_is_not_tried_again(caplog):
    with pytest.raises(RunRefused, match="reason: skip is a decision") as refused, refused_at_once():
        read_form(HistoryRun("manual__x", "manual", 0, None, {"action": "skip"}))

    (line,) = caplog.records
    assert (line.levelname, line.exc_info) == ("ERROR", None)
    assert line.getMessage() == str(refused.value)
    assert refused.value.code == 1
    once = not_retried(RunRefused)["retry_policy"]
    assert once.evaluate(refused.value, 1, 2).action.name == "FAIL"
    assert once.evaluate(SystemExit(1), 1, 2).action.name == "DEFAULT", "a task that was killed is tried again"


def test_an_airflow_without_retry_policies_fails_such_a_run_at_once_too(monkeypatch):
    monkeypatch.setattr(door, "HAS_RETRY_POLICIES", False)
    with pytest.raises(AirflowFailException, match="reason: skip is a decision"), refused_at_once():
        read_form(HistoryRun("manual__x", "manual", 0, None, {"action": "skip"}))


def test_the_box_for_approval_is_ticked_where_the_pipeline_says_so():
    assert [fields(approval=each)["approval"].value for each in (True, False)] == [True, False]


def test_a_reviewer_sees_stretches_and_counts_and_is_led_to_the_rows():
    window = StreamRange(1, OffsetRange(TopicPartition("orders.v1", 0), 10, 20))
    shown = showing.format_difference(
        [Request(7, "orders", Lane.REPLAY, 1, True, True, (window,), "ada", "r", Rehearsal("code", FOUND))],  # noqa: FBT003
        {"replay": "old rows out, new rows in"},
    )
    assert "### replay\n\nOld rows out, new rows in." in shown
    assert r"| orders.v1-0 \[10, 20\) | 10 |" in shown
    assert "| public.orders | 0 | 1 | 1 | 7 |" in shown
    assert "Rejects: 2 before, 0 after." in shown
    assert "The first 2 rows that differ are on the page behind the link **Difference**" in shown
    assert not [piece for piece in ("a|b", r"a\|b", "img", "xxx") if piece in shown]
    assert shown.endswith(showing.NOTHING_CHANGED)


def test_an_xcom_keeps_the_counts_of_a_preview_and_no_row():
    kept = showing.counts_of(FOUND)
    assert kept == {name: FOUND[name] for name in ("added", "changed", "removed", "unchanged", "targets", "rejects")}


def test_a_reviewer_reads_why_more_is_done_than_was_asked_for():
    offsets = OffsetRange(TopicPartition("orders.v1", 0), 0, 4_963)
    shown = showing.format_widened([Widened(offsets, 500)])
    assert "500 of these 4,963 offsets were" in shown
    assert "replaced as a whole" in shown
    assert r"| orders.v1-0 \[0, 4963\) | 4963 | 500 |" in shown
    assert showing.format_widened([]) == ""


def test_a_loss_is_shown_beside_the_position_and_the_logs_start():
    row = {"partition": "orders.v1-0", "from_offset": 3, "until_offset": 9, "position": 3, "log_start": 9}
    assert "| orders.v1-0 | 3 | 9 | 3 | 9 |" in showing.losses([row])
