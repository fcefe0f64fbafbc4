"""Tests the arithmetic of totals: a row equals Python's total of the rows that count.

This holds whatever is added, removed and added again.
"""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg2 import sql

from lockstep.adapters.postgres import connect
from lockstep.core.pipeline.targets import Accumulate, Count, Max, Min, Sum
from lockstep.core.staging import AttemptId
from lockstep.targets import accumulate
from lockstep.targets.proof.accumulated import checks
from lockstep.targets.rows import Rows
from support.fakes.ledger_rows import LedgerRows

BATCHES, STREAMS = 8, 2
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
TARGET = Accumulate(
    "public.spend",
    key=("customer", "region"),
    totals=(
        Count("records"),
        Count("amounts", of="amount"),
        Sum("amount", of="amount"),
        Sum("pieces", of="pieces"),
        Min("least", of="amount"),
        Max("last_at", of="at"),
        Min("word", of="word"),
        Max("heaviest", of="weight"),
    ),
)
DDL = """
create table public.spend (customer text, region int, records bigint, amounts bigint, amount numeric, pieces numeric,
    least numeric(30,6), last_at timestamptz, word text collate "C", heaviest double precision,
    _stream int4, _offset int8, _ordinal int4, _batch int8, primary key (customer, region));
create table public.staged (b bigint, _stream int4, _offset int8, _ordinal int4, customer text, region int,
    amount numeric(30,6), pieces bigint, at timestamptz, word text, weight double precision);
"""
ROW = st.tuples(
    st.integers(0, STREAMS - 1),
    st.sampled_from(["a", "b", 'c"\\']),
    st.integers(-1, 0),
    st.none() | st.decimals(-(10**20), 10**20, places=6),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.integers(0, 10**9).map(lambda n: NOON + timedelta(microseconds=n)),
    st.none() | st.text("abc", max_size=2),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
SEGMENT = st.lists(ROW, max_size=6)


@pytest.fixture(scope="module")
def ledger(servers):
    """Yields streams, and batches that claim offsets of each of them. Every example is rolled back."""
    with servers.database(f"totals_{os.getpid()}") as dsn, closing(connect(dsn)) as conn:
        rows = LedgerRows(conn)
        streams = [rows.stream(partition) for partition in range(STREAMS)]
        batches = [
            rows.planned(dict.fromkeys(streams, (10 * n, 10 * n + 10)), lane="replay") for n in range(2 * BATCHES)
        ]
        with conn, conn.cursor() as cur:
            cur.execute(DDL)
        yield conn, streams, batches


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    segments=st.lists(SEGMENT, min_size=1, max_size=BATCHES),
    replays=st.lists(st.tuples(st.integers(0, BATCHES - 1), SEGMENT), max_size=BATCHES, unique_by=lambda r: r[0]),
)
def test_totals_are_those_of_the_rows_that_count(ledger, segments, replays):
    conn, streams, batches = ledger
    counted: dict[int, list[tuple]] = {}
    with conn.cursor() as cur:
        try:
            for place, rows in enumerate(segments):
                counted[place] = published(cur, streams, batches[place], place, rows)
            for place, rows in replays:
                if place < len(segments):
                    replaces(cur, streams, batches[BATCHES + place], batches[place], place)
                    counted[place] = published(cur, streams, batches[BATCHES + place], place, rows)
            cur.execute("select * from public.spend")
            rows = {tuple(row[:2]): tuple(row[2:-1]) for row in cur.fetchall()}
            added_up = checks(cur, "orders", TARGET)[-1]
        finally:
            conn.rollback()
    assert rows == wanted([row for each in counted.values() for row in each])
    assert added_up.ok, added_up.detail


def published(cur, streams: list[int], batch: int, place: int, rows: list[tuple]) -> list[tuple]:
    """Publishes the rows as a batch, at offsets of their segment. Returns them with their coordinates."""
    placed = [(streams[s], 10 * place + i, 0, *values) for i, (s, *values) in enumerate(rows)]
    for row in placed:
        cur.execute(f"insert into public.staged values ({', '.join(['%s'] * 11)})", (batch, *row))
    source = sql.SQL("(select * from public.staged where b = {})").format(sql.Literal(batch))
    accumulate.publish(cur, TARGET, Rows(AttemptId(batch, 1), len(placed), "public.staged", source))
    return placed


def replaces(cur, streams: list[int], batch: int, old: int, place: int) -> None:
    for stream in streams:
        cur.execute("delete from lockstep.claim where batch_id = %s and stream_id = %s", (old, stream))
        cur.execute(
            "insert into lockstep.claim values (%s, int8range(%s, %s), %s, 'batch', %s)",
            (stream, 10 * place, 10 * place + 10, batch, old),
        )
    accumulate.withdraw(cur, TARGET, batch)


def wanted(rows: list[tuple]) -> dict[tuple, tuple]:
    told = {}
    for key in {row[3:5] for row in rows}:
        mine = [row for row in rows if row[3:5] == key]
        amounts, pieces, times, words, weights = (
            [row[column] for row in mine if row[column] is not None] for column in range(5, 10)
        )
        told[key] = (
            len(mine),
            len(amounts),
            sum(amounts, Decimal(0)) if amounts else None,
            Decimal(sum(pieces)) if pieces else None,
            min(amounts, default=None),
            max(times, default=None),
            min(words, default=None),
            max(weights, default=None),
            *max(row[:3] for row in mine),
        )
    return told
