"""Tests that a staged value reaches another type unchanged, or is refused by column, partition and offset."""

from __future__ import annotations

import pytest
from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.core.staging import AttemptId
from lockstep.targets.payload import payload
from lockstep.targets.rows import Rows

# Staged type, target's type, a value that it holds, and one that a cast would change without a word.
CHANGED = [
    ("numeric(5,2)", "numeric(5,1)", "1.20", "1.25"),
    ("numeric(5,2)", "numeric(4)", "7.00", "7.40"),
    ("numeric(5,2)", "integer", "7.00", "7.40"),
    ("numeric(20,2)", "double precision", "0.10", "123456789012345678.12"),
    ("numeric(12,2)", "real", "0.25", "16777217.01"),
    ("double precision", "real", "0.5", "0.1"),
    ("double precision", "numeric(10,2)", "0.25", "0.125"),
    ("double precision", "numeric", "0.1", "0.30000000000000004"),
    ("double precision", "bigint", "3", "3.5"),
    ("real", "integer", "3", "3.5"),
    ("bigint", "real", "16777216", "16777217"),
    ("bigint", "double precision", "9007199254740992", "9007199254740993"),
    ("integer", "real", "16777216", "16777217"),
    ("timestamptz", "date", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
    ("timestamptz", "timestamptz(0)", "2026-01-01T00:00:01Z", "2026-01-01T00:00:01.5Z"),
    ("timestamptz", "timestamp(3)", "2026-01-01T00:00:01.001Z", "2026-01-01T00:00:01.0001Z"),
    ("timestamptz", "time", None, "2026-01-01T00:00:01Z"),
    ("text", "varchar(2)", "ab", "abc"),
    ("text", "uuid", "6F9619FF-8B86-D011-B42D-00C04FC964FF", None),
    ("real", "double precision", "0.1", None),
    ("integer", "bigint", "7", None),
    ("bigint", "numeric(22,2)", "9223372036854775807", None),
    ("numeric(5,2)", "numeric", "7.25", None),
    ("date", "timestamptz", "2026-01-01", None),
]


@pytest.fixture
def cur(ledger):
    with ledger.conn, ledger.conn.cursor() as cur:
        cur.execute("set local timezone = 'UTC'")
        yield cur
        cur.connection.rollback()


def of(cur, staged: str, held: str, values: list[str]) -> Rows:
    """Stages rows of these values, behind one that is null."""
    cur.execute(f"create temp table staged (_stream int, _offset bigint, _ordinal int, v {staged}) on commit drop")
    cur.execute(f"create temp table target (v {held}) on commit drop")
    for offset, value in enumerate([None, *values], 40):
        cur.execute("insert into staged values (9, %s, 0, %s)", (offset, value))
    return Rows(AttemptId(1, 1), len(values) + 1, "pg_temp.staged", sql.SQL("(select * from pg_temp.staged)"))


@pytest.mark.parametrize(("staged", "held", "good", "bad"), CHANGED, ids=[f"{s} as {h}" for s, h, _, _ in CHANGED])
def test_a_value_reaches_the_target_as_it_was_or_is_refused(cur, staged, held, good, bad):
    rows = of(cur, staged, held, [good] if good else [])
    columns = payload(cur, "pg_temp.target", rows)
    cur.execute(sql.SQL("insert into target select {} from staged t").format(columns.staged))
    if good and held != "uuid":
        cur.execute(f"select v::{staged}::text = %s::{staged}::text from target where v is not null", (good,))
        assert cur.fetchall() == [(True,)]
    if bad is None:
        return
    cur.execute("insert into staged values (9, 77, 0, %s)", (bad,))

    with pytest.raises(BadData) as refused:
        payload(cur, "pg_temp.target", rows)

    said = str(refused.value)
    cur.execute(
        "select format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'target'::regclass and attnum = 1"
    )
    (as_written,) = cur.fetchone()
    assert f"pg_temp.target.v is {as_written} and cannot hold the " in said
    assert "of the record at stream 9 offset 77 as it is" in said
    assert "Next: alter table pg_temp.target alter column v type " in said
    assert "\n" not in said
