"""Tests that SQL and Python compute the same windows of a moment."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from psycopg2 import sql

from lockstep.adapters.postgres import COMMITTER, connect, transaction
from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import Calendar, Hopping, Tumbling
from lockstep.core.windows.event_time import FIXED_IN_POSTGRES
from lockstep.core.windows.windows_of import EARLIEST_EVENT, LATEST_EVENT, windows_of
from lockstep.targets.table.zones import require_zone
from lockstep.targets.windows import end_in_sql, windows_in_sql
from simulation.pipeline import folder_of

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Asia/Kolkata", "Asia/Beirut", "Pacific/Apia",
         "Australia/Lord_Howe", "America/St_Johns"]  # fmt: skip
KINDS = [
    *map(Tumbling, ["1 second", "7 minutes", "1 hour", "1 day", "13 days", "52 weeks"]),
    *(Hopping(*each) for each in [("1 hour", "5 minutes"), ("1 day", "1 hour"), ("9 seconds", "9 seconds")]),
    *(Calendar(unit, zone) for unit in ("day", "week", "month") for zone in ZONES),
]
WINDOWS = """select t.at, w.window_start, w.window_end, {} from unnest(%s::timestamptz[]) t (at)
    cross join lateral ({}) w order by 1, 2"""


def moments():
    """Yields moments at and around the changes of clocks of some years, and at the calendar's edges."""
    for year, month in itertools.product((2011, 2026, 2036), (3, 4, 10, 11, 12)):
        begin = datetime(year, month, 1, tzinfo=UTC)
        for hour in range(0, 744, 13):
            yield begin + timedelta(hours=hour)
            yield begin + timedelta(hours=hour, microseconds=-1)
    yield from (EARLIEST_EVENT, LATEST_EVENT - timedelta.resolution, datetime(1970, 1, 1, tzinfo=UTC))
    yield from (datetime(2010, 11, 7, tzinfo=UTC) + timedelta(minutes=15 * quarter) for quarter in range(24))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_each_window_of_a_moment_holds_it(kind):
    for moment in moments():
        assert all(moment in window for window in windows_of(kind, moment)), moment


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_sql_and_python_agree_on_the_windows_of_a_moment_and_on_their_ends(database, kind):
    given = sorted(set(moments()))
    wanted = [(moment, window.start, window.end) for moment in given for window in windows_of(kind, moment)]
    statement = sql.SQL(WINDOWS).format(
        end_in_sql(kind, sql.SQL("w.window_start")), windows_in_sql(kind, sql.SQL("t.at"))
    )
    with closing(connect(database)) as conn, transaction(conn, COMMITTER) as cur:
        cur.execute(statement, (given,))
        found = [tuple(row) for row in cur.fetchall()]
    assert [row[:3] for row in found] == wanted
    assert all(row[2] == row[3] for row in found)


def test_every_zone_that_postgres_takes_for_another_offset_is_refused(database):
    with closing(connect(database)) as conn, transaction(conn, COMMITTER) as cur:
        cur.execute("select abbrev, utc_offset from pg_timezone_abbrevs")
        offsets = {row.abbrev: row.utc_offset for row in cur.fetchall()}
    named = {name: ZoneInfo(name) for name in available_timezones() if name.upper() in offsets}
    others = {
        name
        for name, zone in named.items()
        if any(datetime(2026, month, 1, tzinfo=zone).utcoffset() != offsets[name.upper()] for month in (1, 7))
    }
    assert "UTC" in named
    assert others == FIXED_IN_POSTGRES


def test_a_zone_that_the_database_does_not_know_is_refused(database, tmp_path):
    kind = Calendar("day", "UTC")
    object.__setattr__(kind, "zone", "Mars/Olympus")  # as newer time zones of Python may have it
    pipeline = folder_of(tmp_path, kind="windowed", records=1).pipeline
    pipeline = replace(pipeline, target=replace(pipeline.first, window=kind))  # type: ignore[arg-type]
    with (
        closing(connect(database)) as conn,
        pytest.raises(BadDefinition, match="the database knows no time zone 'Mars/Olympus'"),
        transaction(conn, COMMITTER) as cur,
    ):
        require_zone(cur, pipeline)
