"""Tests event time as values: windows tile time, nonsense is refused at birth, and old definitions keep their hash."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.columns import parse_columns
from lockstep.core.pipeline.definition import (
    Append,
    AtLeastOnce,
    Calendar,
    Count,
    EventTime,
    Hopping,
    Json,
    PerPartition,
    Pipeline,
    Postgres,
    Sum,
    Tumbling,
    Windows,
)
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.core.planning.blocked import changed_definition
from lockstep.core.windows.event_time import event_time_fault
from lockstep.core.windows.window_findings import TimeFacts, window_findings
from lockstep.core.windows.windows_of import (
    EARLIEST_EVENT,
    LATEST_EVENT,
    EventWindow,
    is_late,
    windows_a_record,
    windows_of,
)

HOURLY = Windows("public.by_hour", window=Tumbling("1 hour"), key=("shop",), totals=(Sum("revenue", of="amount"),))
COLUMNS = "shop string, amount decimal(12,2), placed_at timestamp"
SALES = Pipeline("sales", "orders.v1", Json(COLUMNS), HOURLY, event_time=EventTime("placed_at", delay="2 minutes"))
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",
    "Asia/Kolkata",
    "America/Sao_Paulo",
    "Asia/Beirut",
]
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2037, 12, 1), timezones=st.just(UTC))  # noqa: DTZ001
KINDS = st.one_of(
    st.sampled_from(["1 second", "7 minutes", "1 hour", "1 day", "13 days"]).map(Tumbling),
    st.sampled_from([("1 hour", "5 minutes"), ("1 day", "1 hour"), ("9 seconds", "9 seconds")]).map(
        lambda each: Hopping(*each)
    ),
    st.builds(Calendar, st.sampled_from(["day", "week", "month"]), st.sampled_from(ZONES)),
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@given(KINDS, MOMENTS)
def test_a_moment_is_in_each_of_its_windows_and_they_are_as_many_as_promised(kind, moment):
    found = windows_of(kind, moment)
    assert len(found) == windows_a_record(kind) == len(set(found))
    assert all(moment in window for window in found)
    assert list(found) == sorted(found)


@given(KINDS, MOMENTS)
def test_both_ends_of_a_window_tell_the_same_windows(kind, moment):
    for window in windows_of(kind, moment):
        assert window in windows_of(kind, window.start)
        assert window in windows_of(kind, window.end - timedelta(microseconds=1))
        assert window not in windows_of(kind, window.end)


@given(KINDS, MOMENTS)
def test_windows_that_do_not_hop_tile_time(kind, moment):
    if isinstance(kind, Hopping):
        return
    tiles = [windows_of(kind, moment)[0]]
    for _ in range(40):
        tiles += windows_of(kind, tiles[-1].end)
    assert all(one.end == other.start for one, other in pairwise(tiles))


@given(st.sampled_from(ZONES), MOMENTS)
def test_a_day_is_that_of_the_zones_wall_clock(zone, moment):
    (day,) = windows_of(Calendar("day", zone), moment)
    assert {each.astimezone(ZoneInfo(zone)).date() for each in (day.start, moment, day.end - timedelta.resolution)} == {
        moment.astimezone(ZoneInfo(zone)).date()
    }


@pytest.mark.parametrize(
    ("zone", "moment", "hours"),
    [
        ("Europe/Berlin", "2026-03-29T12:00", 23),
        ("Europe/Berlin", "2026-10-25T00:30", 25),
        ("Europe/Berlin", "2026-05-01T12:00", 24),
        ("America/Havana", "2026-11-01T04:30", 25),  # its midnight comes twice
        ("Asia/Beirut", "2026-03-29T12:00", 23),  # its midnight is left out
        ("Pacific/Apia", "2011-12-29T22:00", 24),  # the day behind it is left out
    ],
)
def test_a_day_of_23_or_25_hours_is_one_window(zone, moment, hours):
    (day,) = windows_of(Calendar("day", zone), at(moment))
    assert day.end - day.start == timedelta(hours=hours)
    assert at(moment) in day


def test_windows_of_a_fixed_size_begin_at_whole_sizes_since_2000():
    assert windows_of(Tumbling("1 hour"), at("2026-05-01T10:00")) == (
        EventWindow(at("2026-05-01T10:00"), at("2026-05-01T11:00")),
    )
    assert windows_of(Tumbling("7 days"), at("1999-12-31T23:59"))[0].end == at("2000-01-01T00:00")
    assert [
        window.start for window in windows_of(Hopping("15 minutes", every="5 minutes"), at("2026-05-01T10:04"))
    ] == [
        at("2026-05-01T09:50"),
        at("2026-05-01T09:55"),
        at("2026-05-01T10:00"),
    ]


def test_weeks_begin_on_monday_and_months_on_the_first():
    (week,) = windows_of(Calendar("week", "Europe/Berlin"), at("2026-05-03T12:00"))
    (month,) = windows_of(Calendar("month", "UTC"), at("2026-12-31T23:00"))
    assert (week.start, week.end) == (at("2026-04-26T22:00"), at("2026-05-03T22:00"))
    assert (month.start, month.end) == (at("2026-12-01T00:00"), at("2027-01-01T00:00"))


@given(KINDS, st.sampled_from([EARLIEST_EVENT, LATEST_EVENT - timedelta.resolution]))
def test_windows_at_the_edge_of_the_calendar_can_be_computed(kind, moment):
    assert all(moment in window for window in windows_of(kind, moment))


def test_e3_a_window_is_late_at_the_moment_that_closes_it_and_not_before():
    window = EventWindow(at("2026-05-01T10:00"), at("2026-05-01T11:00"))
    assert is_late(window, timedelta(hours=1), at("2026-05-01T12:00"))
    assert not is_late(window, timedelta(hours=1), at("2026-05-01T12:00") - timedelta.resolution)
    assert not is_late(window, timedelta(0), None)


GOOD: dict[str, Any] = {"table": "public.a", "window": Tumbling("1 hour"), "key": ("shop",), "totals": (Count("n"),)}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EventTime("no name"), "event_time: column is 'no name': it must be the name of a timestamp column"),
        (lambda: EventTime(5), "event_time: column is 5"),  # type: ignore[arg-type]
        (lambda: EventTime("at", delay="2m"), "event_time: delay is '2m': it must be a duration, as '90 seconds'"),
        (lambda: EventTime("at", delay=2), "event_time: delay is '2'"),  # type: ignore[arg-type]
        (lambda: EventTime("at", delay="-1 seconds"), "event_time: delay is '-1 seconds'"),
        (lambda: EventTime("at", idle="0 seconds"), "event_time: idle is '0 seconds': it must be a duration above zero"),
        (lambda: Tumbling("1 month"), "target.window: size is '1 month': it must be a duration above zero"),
        (lambda: Tumbling("0 hours"), "target.window: size is '0 hours'"),
        (lambda: Tumbling("999999 weeks"), "target.window: size is '999999 weeks'"),
        (lambda: Tumbling(None), "target.window: size is 'None'"),
        (lambda: Hopping("1 hour", "7 minutes"), "target.window: size '1 hour' is no multiple of every '7 minutes'"),
        (lambda: Hopping("5 minutes", "10 minutes"), "target.window: size '5 minutes' is no multiple"),
        (lambda: Hopping("1 day", "1 minute"), "target.window: a record would count in 1440 windows, and 100 is the most"),
        (lambda: Calendar("hour", "UTC"), "target.window: unit is 'hour': it must be 'day', 'week' or 'month': an hour is"),
        (lambda: Calendar("day", "Mars/Olympus"), "target.window: zone 'Mars/Olympus' is no time zone, such as"),
        (lambda: Calendar("day", "../etc/passwd"), "target.window: zone '../etc/passwd' is no time zone"),
        (lambda: Calendar("day", ""), "target.window: zone '' is no time zone"),
        (lambda: Calendar("day", "CET"), "target.window: zone 'CET' has no summer time in Postgres: name a place, such as"),
        (lambda: Calendar("day", 5), "target.window: zone 5 is no time zone"),  # type: ignore[arg-type]
        (lambda: Windows(**GOOD | {"window": "1 hour"}), "target.window is '1 hour': it must be Tumbling, Hopping"),
        (lambda: Windows(**GOOD | {"lateness": "1d"}), "target.lateness is '1d': it must be a duration"),
        (lambda: Windows(**GOOD | {"max_late_share": 2}), "target.max_late_share is 2: it must lie between 0 and 1"),
        (lambda: Windows(**GOOD | {"max_late_share": True}), "target.max_late_share is True"),
        (lambda: Windows(**GOOD | {"key": ("window_start",)}), "target.totals: the column 'window_start' is reserved"),
        (lambda: Windows(**GOOD | {"totals": (Count("_revision"),)}), "target.totals: the column '_revision' is reserved"),
        (lambda: Windows(**GOOD | {"totals": ()}), "target.totals must be a tuple of totals"),
        (lambda: replace(SALES, event_time=None), "event_time is None: public.by_hour has windows"),
        (lambda: replace(SALES, event_time="placed_at"), "event_time is 'placed_at': not a kind that Lockstep knows"),  # type: ignore[arg-type]
        (lambda: replace(SALES, guarantee=PerPartition()), "target is Windows, and guarantee PerPartition takes Append"),
        (lambda: replace(SALES, guarantee=AtLeastOnce(), store=Postgres("X")), "guarantee: AtLeastOnce() appends rows"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_at_birth_in_one_line_that_names_the_field(make, said):
    with pytest.raises(BadDefinition) as refused:
        make()
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        (COLUMNS, None),
        ("shop string", "event_time: column 'placed_at' is no column (shop)"),
        ("placed_at string", "event_time: column 'placed_at' is string, and must be timestamp"),
    ],
)
def test_the_column_of_the_event_time_must_be_there_and_a_timestamp(columns, fault):
    assert event_time_fault(SALES.event_time, parse_columns(columns)) == fault


def test_a_definition_without_event_time_keeps_its_document():
    assert "event_time" not in Pipeline("a", "a.v1", Json("id string"), Append("public.a")).document()


@pytest.mark.parametrize(
    "window", [Tumbling("1 hour"), Hopping("1 hour", "30 minutes"), Calendar("day", "Europe/Berlin")]
)
def test_a_definition_comes_back_from_its_document(window):
    pipeline = replace(SALES, target=replace(HOURLY, window=window, lateness="1 day"))
    assert pipeline_of_document(pipeline.document()) == pipeline


@pytest.mark.parametrize(
    ("changed", "is_allowed"),
    [
        ({"lateness": "1 day"}, True),
        ({"max_late_share": 0.9}, True),
        ({"window": Tumbling("2 hours")}, False),
        ({"key": ("amount",)}, False),
    ],
)
def test_a_table_with_windows_keeps_window_and_key_and_may_change_lateness(changed, is_allowed):
    blocked = changed_definition(replace(SALES, target=replace(HOURLY, **changed)), [SALES.document()])
    assert (blocked is None) is is_allowed
    assert blocked is None or "a pipeline keeps its target for good" in blocked.reason


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (None, []),
        (TimeFacts(None, None, (), 0, 0), []),
        (TimeFacts(at("2026-05-01T10:00"), at("2026-05-01T11:00"), ("t-0",), 1, 99), []),
        (TimeFacts(at("2026-05-01T10:00"), at("2026-05-01T11:01"), ("t-0",), 0, 9), ["t-0 hold the watermark, and others"]),
        (TimeFacts(None, at("2026-05-01T11:01"), ("t-0", "t-1"), 0, 9), ["t-0, t-1 hold the watermark"]),
        (TimeFacts(None, None, ("t-0",), 2, 98), ["2 of 100 rows came too late"]),
    ],
)  # fmt: skip
def test_doctor_warns_of_a_watermark_that_is_held_and_of_much_that_is_late(facts, told):
    found = [finding.found for finding in window_findings("sales", facts) if finding]
    assert len(found) == len(told)
    assert all(one.startswith(other) for one, other in zip(found, told, strict=True))


@pytest.mark.parametrize("more", [(), (Append("public.raw"),)])
def test_windows_keep_the_column_that_they_go_by(more):
    sales = replace(SALES, format=Json(f"{COLUMNS}, shipped_at timestamp"), target=(HOURLY, *more))
    other = replace(sales, event_time=EventTime("shipped_at", delay="2 minutes"))
    blocked = changed_definition(other, [sales.document()])
    assert blocked
    assert blocked.reason == (
        "sales: its event time's column was placed_at and is now shipped_at; a pipeline keeps its event time's column for good"
    )
    assert blocked.next_command == "put it back, or lockstep clone sales --to ANOTHER_NAME"
    assert changed_definition(sales, [sales.document()]) is None


def test_delay_idle_lateness_and_the_share_of_late_rows_may_change():
    tuned = replace(HOURLY, lateness="2 days", max_late_share=0.1)
    other = replace(SALES, target=tuned, event_time=EventTime("placed_at", delay="5 minutes", idle="1 hour"))
    assert changed_definition(other, [SALES.document()]) is None
