"""Verify finds what is wrong, each kind of it, and names the first offset."""

from __future__ import annotations

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka import Broker
from lockstep.adapters.postgres import connect
from lockstep.steps.verify import verify

SPOILED = [
    ("a row is gone", "delete from public.drill where n = 7", "rows are all there"),
    (
        "a row is doubled",
        "insert into public.drill select id, n, _stream, _offset, 1, _batch from public.drill where n = 7",
        "rows are all there",
    ),
    ("a row names another batch", "update public.drill set _batch = 99 where n = 7", "every row is its batch's"),
    ("a row was swapped", "update public.drill set _offset = 100000 where n = 7", "exactly once"),
    (
        "a reject appeared",
        """insert into lockstep.reject (stream_id, "offset", batch_id, reason)
           select _stream, 99999, _batch, 'x' from public.drill limit 1""",
        "rejects are all there",
    ),
]


@pytest.mark.parametrize(("statement", "check"), [s[1:] for s in SPOILED], ids=[s[0] for s in SPOILED])
def test_what_was_spoiled_is_found(drill, postgres, statement, check):
    drill.run("--until-idle")
    assert findings(drill) == []

    superuser = postgres.rpartition("/")[0] + "/" + drill.dsn.rpartition("/")[2]
    conn = psycopg2.connect(superuser)
    with conn, conn.cursor() as cur:
        cur.execute("set session_replication_role = replica")
        cur.execute(statement)
    conn.close()

    found = findings(drill)
    assert any(check in name for name, _ in found), found
    assert all(detail for _, detail in found)


def findings(drill) -> list[tuple[str, str]]:
    conn = connect(drill.dsn)
    checks = verify(conn, Broker(drill.kafka), load("drill"), deep=True)
    conn.close()
    return [(check.name, check.detail) for check in checks if not check.ok]
