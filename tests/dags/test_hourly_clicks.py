"""Tests the example behind clicks: its statement finds the rows of one hour, from any batch and stream."""

from __future__ import annotations

import runpy
from contextlib import closing
from pathlib import Path

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import COMMITTER, PLANNER, READER, connect, transaction
from lockstep.ledger.migrate import migrate_target
from support.fakes.ledger_rows import LedgerRows

EXAMPLE = Path(__file__).parents[2] / "dags" / "hourly_clicks.py"
URLS = ("/a", "/b", "/b", "/b", "/c")


@pytest.mark.parametrize(("hour", "counted"), [("09", (3, 2)), ("10", (1, 1)), ("11", (0, 0))])
def test_the_example_counts_the_clicks_of_its_hour_and_no_others(database, hour, counted):
    statement = runpy.run_path(str(EXAMPLE))["OF_AN_HOUR"]
    with closing(connect(database)) as conn:
        migrate_target(conn, load("clicks"))
        ledger = LedgerRows(conn, "clicks")
        stream = ledger.stream(0)
        batch, _ = ledger.done({stream: (0, 5)})
        with transaction(conn, COMMITTER) as cur:
            for offset, url in enumerate(URLS):
                known = (f"c{offset}", url, stream, offset, batch)
                cur.execute("insert into public.clicks values (%s, null, %s, null, %s, %s, 0, %s)", known)
        with transaction(conn, PLANNER) as cur:
            for until, low, high in (("10", 0, 3), ("11", 3, 4), ("12", 4, 4)):
                moment = f"2026-05-01 {until}:00+00"
                cur.execute("insert into lockstep.complete_hour values ('clicks', %s, '{}')", (moment,))
                known = (moment, stream, low, high)  # type: ignore[assignment]
                cur.execute("insert into lockstep.hour_offsets values ('clicks', %s, %s, %s, %s)", known)
        with transaction(conn, READER) as cur:
            cur.execute(statement, {"hour": f"2026-05-01T{hour}:00:00Z"})
            assert cur.fetchall() == [counted]
