"""Tests that each alarm names its partition, its offsets and the next command, and is silent while nothing is wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lockstep.core.health.alarms import Reading, alarms, grown, headroom_seconds
from lockstep.core.offsets import Bounds, TopicPartition

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
WHERE = TopicPartition("orders.v1", 3)
DAY = timedelta(days=1)
LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)


def reading(position: int = 40, start: int = 5, end: int = 100, high: int | None = None, **times: float) -> Reading:
    since = {f"{name}_since": NOON - timedelta(hours=hours) for name, hours in times.items()}
    return Reading(WHERE, position, Bounds(start, end), end if high is None else high, **since)  # type: ignore[arg-type]


QUIET = [
    ("the record that waits is young", reading(waiting=17), DAY),
    ("nothing waits", reading(position=100, waiting=40), DAY),
    ("time deletes nothing", reading(waiting=4_000), None),
    ("no record was found that waits", reading(), DAY),
    ("the record that waits is of the calendar's last day", replace(reading(), waiting_since=LAST_DAY), DAY),
]


@pytest.mark.parametrize(("at", "kept"), [case[1:] for case in QUIET], ids=[case[0] for case in QUIET])
def test_nothing_is_said_while_nothing_is_wrong(at, kept):
    assert alarms("orders", at, kept, NOON) == []


@pytest.mark.parametrize(("hours", "seconds"), [(18, 21_600), (23.5, 1_800), (30, 0)])
def test_retention_that_comes_near_is_told_in_records_and_seconds(hours, seconds):
    (alarm,) = alarms("orders", reading(waiting=hours), DAY, NOON)
    assert (alarm.kind, alarm.partition, alarm.from_offset, alarm.until_offset) == ("retention_near", 3, 40, 100)
    assert (alarm.records, alarm.seconds) == (35, seconds)
    assert "orders.v1-3" in alarm.message
    assert alarm.next == "lockstep run orders --until-idle"


def test_retention_that_has_passed_the_position_names_the_loss_and_the_command_that_accepts_it():
    (alarm,) = alarms("orders", reading(start=60), DAY, NOON)
    assert (alarm.kind, alarm.from_offset, alarm.until_offset, alarm.records) == ("retention_passed", 40, 60, 20)
    assert alarm.next == "lockstep accept-loss orders --partition 3 --from 40 --until 60 --reason ..."


@pytest.mark.parametrize(("times", "seconds"), [({"open": 2}, 7_200), ({}, None), ({"open": -1}, 0)])
def test_an_open_transaction_is_told_with_what_waits_behind_it_and_for_how_long(times, seconds):
    (alarm,) = alarms("orders", reading(position=100, high=107, **times), DAY, NOON)
    assert (alarm.kind, alarm.from_offset, alarm.until_offset) == ("open_transaction", 100, 107)
    assert (alarm.records, alarm.seconds) == (7, seconds)
    assert "--topic orders.v1 --partition 3" in alarm.next


def test_a_partition_that_was_added_is_told_with_what_it_holds():
    alarm = grown("orders", WHERE, Bounds(0, 8))
    assert (alarm.kind, alarm.from_offset, alarm.until_offset, alarm.records) == ("partition_added", 0, 8, 8)
    assert alarm.next == "lockstep run orders"


def test_headroom_is_never_negative():
    assert headroom_seconds(reading(waiting=100), DAY, NOON) == 0.0
