"""Tests how a run's form and interval become work. A contradiction is refused in one line that names the field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lockstep.core.errors import BadDefinition
from lockstep.core.planning.bounds import AtOffsets, AtTime
from lockstep.core.planning.history import HistoryRun, lost_offsets, read_form, require_approval, waits_until

HOUR = (datetime(2026, 5, 1, 10, tzinfo=UTC), datetime(2026, 5, 1, 11, tzinfo=UTC))
GRACE = timedelta(minutes=1)
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def backfill(clear_number: int = 0, **form: Any) -> HistoryRun:
    return HistoryRun("backfill__x", "backfill", clear_number, HOUR, {"action": "fill", **form}, form)


def by_hand(clear_number: int = 0, **form: Any) -> HistoryRun:
    return HistoryRun("manual__x", "manual", clear_number, None, form)


@pytest.mark.parametrize(
    ("run", "lanes", "why"),
    [
        (backfill(), ("fill",), "a first time fills what is not covered"),
        (backfill(1), ("replay", "fill"), "a run that was cleared is a replay, and what was never read is filled"),
        (backfill(1, action="fill"), ("fill",), "the form has the last word"),
        (backfill(action="replay"), ("replay",), "the first time, too"),
        (backfill(1, reprocess_behavior="failed"), ("replay", "fill"), "the run has failed, and was cleared"),
        (backfill(reprocess_behavior="completed", action="fill"), ("fill",), "the conf has the last word"),
        (by_hand(action="fill", reprocess_behavior="completed"), ("fill",), "it is no backfill's run"),
        (
            HistoryRun("s", "scheduled", 1, HOUR, {"action": "fill"}),
            ("replay", "fill"),
            "clearing a run of the schedule asks for its hour, whatever the form's first choice is",
        ),
        (by_hand(action="replay", partition=0), ("replay",), "a partition is bound enough"),
        (by_hand(action="fill"), ("fill",), "everything that is not covered"),
        (by_hand(1, action="fill"), ("fill",), "cleared, it does what its form says once more"),
        (by_hand(action="skip", reason="r"), (), "no request: a decision"),
        (by_hand(action="admit-late", reason="r", partition=0), ("replay",), "a decision, and the replay behind it"),
    ],
)
def test_a_run_asks_for_lanes(run, lanes, why):
    assert read_form(run).lanes == lanes, why


def test_a_first_run_replays_what_is_covered_if_its_backfill_reprocesses_completed_runs():
    assert read_form(backfill(reprocess_behavior="completed")).lanes == ("replay", "fill")


def test_a_first_run_only_fills_if_its_backfill_makes_no_run_again_or_failed_ones():
    for behavior in ("none", "failed"):
        assert read_form(backfill(reprocess_behavior=behavior)).lanes == ("fill",)


def test_a_backfills_bounds_are_its_interval_and_a_forms_are_times_or_offsets_in_utc():
    found = read_form(backfill())
    assert (found.begin, found.end) == (AtTime(HOUR[0]), AtTime(HOUR[1]))
    found = read_form(by_hand(action="replay", from_time="2026-05-01T12:00:00+02:00", until_offsets=["0:7", " 1:9 "]))
    assert (found.begin, found.end) == (AtTime(HOUR[0]), AtOffsets({0: 7, 1: 9}))


def test_runs_of_the_schedule_ask_for_nothing_until_somebody_clears_them():
    assert not HistoryRun("s", "scheduled", 0, HOUR, {}).asks
    assert HistoryRun("s", "scheduled", 1, HOUR, {}).asks
    assert backfill().asks
    assert by_hand().asks


def test_a_runs_key_is_the_same_for_each_try_and_another_one_once_it_is_cleared():
    assert backfill().key == backfill().key == "backfill__x"
    assert len({backfill(n).key for n in range(3)}) == 3


@pytest.mark.parametrize(
    ("form", "mode"),
    [
        ({"action": "replay", "partition": 0}, "do"),
        ({"action": "replay", "partition": 0, "approval": True, "reason": "r"}, "approve"),
        ({"action": "fill", "preview": True, "approval": True}, "preview"),
        ({"action": "skip", "reason": "r", "approval": True}, "do"),
    ],
)
def test_a_preview_stops_before_an_approval_and_a_skip_needs_none(form, mode):
    assert read_form(by_hand(**form)).mode == mode


def test_a_backfill_that_waits_for_an_approval_needs_no_reason():
    assert read_form(backfill(approval=True)).mode == "approve"


def test_a_first_run_that_replays_waits_for_the_approvers_that_a_pipeline_names():
    require_approval(read_form(backfill(reprocess_behavior="completed", approval=True)), ("7",))
    require_approval(read_form(backfill(reprocess_behavior="none")), ("7",))
    with pytest.raises(BadDefinition, match="approval: replay waits for one of 7"):
        require_approval(read_form(backfill(reprocess_behavior="completed")), ("7",))


LOSS: dict[str, Any] = {"action": "accept-loss", "reason": "r", "from_offsets": ["0:1"], "until_offsets": ["0:4"]}


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (by_hand(), "action: choose one"),
        (by_hand(action="rewind"), "action: 'rewind' is none of fill, replay"),
        (by_hand(action="replay"), "from_time, from_offsets: what is to be replayed"),
        (by_hand(action="fill", from_time="2026-05-01", from_offsets=["0:1"]), "from_time, from_offsets: give one"),
        (by_hand(action="fill", until_time="tomorrow"), "until_time 'tomorrow' is no bound"),
        (by_hand(action="fill", until_time="0:3"), "until_time: '0:3' is not what belongs there: a time"),
        (by_hand(action="fill", from_offsets=["2026-05-01"]), "from_offsets: '2026-05-01' is not what belongs there"),
        (by_hand(action="fill", from_offsets=["0:1", "0:2"]), "from_offsets '0:1,0:2' is no bound"),
        (by_hand(action="fill", from_time="2026-05-02", until_time="2026-05-01"), "until_time: 2026-05-01T00"),
        (by_hand(action="skip"), "reason: skip is a decision"),
        (by_hand(action="skip", reason="  "), "reason: skip is a decision"),
        (by_hand(action="fill", approval=True), "reason: an approval is asked for"),
        (by_hand(action="skip", reason="r", from_time="2026-05-01"), "from_time, from_offsets: a skip begins"),
        (by_hand(action="skip", reason="r", preview=True), "preview: a skip changes no row"),
        (by_hand(action="migrate", preview=True, reason="r", topic="eu"), "topic: a table is changed for all topics"),
        (by_hand(action="skip", reason="r", partition=1), "partition: of skip the offsets name"),
        (by_hand(**{**LOSS, "reason": ""}), "reason: accept-loss is a decision"),
        (
            by_hand(**{**LOSS, "from_offsets": [], "from_time": "2026-05-01"}),
            "from_offsets: a loss is named by offsets",
        ),
        (by_hand(**{**LOSS, "until_offsets": []}), "from_offsets: a loss is named by offsets"),
        (by_hand(**{**LOSS, "until_offsets": ["1:4"]}), "until_offsets: a loss is named on the same partitions"),
        (by_hand(**{**LOSS, "until_offsets": ["0:1"]}), r"until_offsets: \[1, 1\) of partition 0 holds no offset"),
        (backfill(action="skip", reason="r"), "action: skip is not for a backfill"),
        (backfill(from_time="2026-05-01"), "from_time, from_offsets: a backfill's bounds are its interval"),
        (backfill(until_offsets=["0:1"]), "until_time, until_offsets: a backfill's bounds are its interval"),
        (HistoryRun("b", "backfill", 0, None, {}), "data interval: run b has none"),
        (backfill(reprocess_behavior="all"), "reprocess_behavior: 'all' is none of none, failed, completed"),
        (backfill(1, action="fill", reprocess_behavior=[]), r"reprocess_behavior: \[\] is none of none"),
    ],
)
def test_what_contradicts_itself_is_refused_by_the_field_to_change(run, said):
    with pytest.raises(BadDefinition, match=said) as refused:
        read_form(run)
    assert "\n" not in str(refused.value)


def test_a_loss_is_named_partition_by_partition():
    asked = read_form(by_hand(**{**LOSS, "from_offsets": ["1:5", "0:1"], "until_offsets": ["0:4", "1:6"]}))
    assert lost_offsets(asked) == {0: (1, 4), 1: (5, 6)}


@pytest.mark.parametrize(
    ("run", "now", "closes"),
    [
        (backfill(), NOON, None),
        (backfill(), HOUR[1] + timedelta(seconds=10), HOUR[1] + GRACE),
        (backfill(), HOUR[1] - timedelta(minutes=5), HOUR[1] + GRACE),
        (by_hand(action="fill", until_time="2026-05-01T11:00"), HOUR[1] + timedelta(seconds=10), HOUR[1] + GRACE),
        (by_hand(action="fill", until_offsets=["0:9"]), HOUR[0], None),
    ],
)
def test_an_interval_is_waited_for_until_no_earlier_record_can_come(run, now, closes):
    assert waits_until(read_form(run), run, now, GRACE) == closes


@pytest.mark.parametrize("field", ["from_time", "until_time"])
def test_a_time_of_the_form_that_has_not_come_is_refused(field):
    run = by_hand(action="fill", **{field: "2026-05-01T13:00"})  # type: ignore[arg-type]
    with pytest.raises(BadDefinition, match=f"{field}: 2026-05-01T13:00:00.00:00 has not come yet"):
        waits_until(read_form(run), run, NOON, GRACE)
