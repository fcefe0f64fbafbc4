"""Tests that the database refuses a decision to count anew that does not say which table, and by how many rows."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.postgres import PLANNER, transaction

ROW = "insert into lockstep.decision (pipeline, kind, who, why, detail) values ('orders', 'recount', 'me', 'x', %s)"


def test_the_database_refuses_a_recount_that_does_not_say_of_which_table_and_by_how_much(ledger):
    with closing(ledger.conn) as conn, transaction(conn, PLANNER) as cur:
        cur.execute("insert into lockstep.pipeline (name) values ('orders')")
        for rows in (-1, 3, 10**17):
            cur.execute(ROW, (f'{{"target": "public.orders", "rows": {rows}}}',))
        for detail in (
            "{}",
            '{"target": "public.orders"}',
            '{"rows": 1}',
            '{"target": 7, "rows": 1}',
            '{"target": "public.orders", "rows": 0}',
            '{"target": "public.orders", "rows": 1.5}',
            '{"target": "public.orders", "rows": "1"}',
            '{"target": "public.orders", "rows": null}',
        ):
            cur.execute("savepoint before")
            with pytest.raises(psycopg2.errors.CheckViolation, match="recount_is_told"):
                cur.execute(ROW, (detail,))
            cur.execute("rollback to before")
