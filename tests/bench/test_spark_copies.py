"""Tests that Spark's tasks copy values unchanged."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal

import psycopg2
import pytest

from lockstep.engine.spark.session import session
from peers.spark_copy import copy

TABLE = """create table public.copied (n int primary key, name text, amount numeric(12,2), quantity int, paid boolean,
    placed_at timestamptz)"""
AT = datetime(2026, 5, 1, 23, 59, 59, 123456, tzinfo=UTC)
ROWS = [
    (0, "plain", Decimal("9999999999.99"), 1, True, AT),
    (1, 'quote " comma , tab \t back \\ \\N \\.', Decimal("-0.01"), -4, False, AT),
    (2, "line\nthere\r\nand there", Decimal("0.00"), 2**31 - 1, True, AT),
    (3, "", None, None, None, None),
    (4, None, Decimal("1.10"), 0, False, AT),
    (5, " é 漢 😀 ", Decimal("1.00"), 0, False, AT),
]


@pytest.mark.long
def test_spark_copies_quotes_lines_nulls_and_empty_texts_as_they_are(database):
    with closing(psycopg2.connect(database)) as conn, conn, conn.cursor() as cur:
        cur.execute(TABLE)
    columns = "n int, name string, amount decimal(12,2), quantity int, paid boolean, placed_at timestamp"
    copy(session().createDataFrame(ROWS, columns).repartition(3), database, "public.copied", 2)
    with closing(psycopg2.connect(database)) as conn, conn, conn.cursor() as cur:
        cur.execute("select * from public.copied order by n")
        assert cur.fetchall() == ROWS
