"""Tests how errors of Postgres's driver reach the steps: under names of ours."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.postgres import connect, transaction
from lockstep.adapters.postgres_errors import StatementRefused, best_effort, server_refusals
from lockstep.core.errors import LockTimeout


@pytest.fixture
def conn(database):
    with closing(connect(database)) as conn:
        with transaction(conn, None) as cur:
            cur.execute("create table public.told (id int constraint told_once primary key)")
            cur.execute("insert into public.told values (7)")
        yield conn


def test_a_refused_statement_names_its_constraint_and_keeps_values_apart(conn):
    with pytest.raises(StatementRefused) as refused, transaction(conn, None) as cur, server_refusals():
        cur.execute("insert into public.told values (7)")

    assert refused.value.constraint == "told_once"
    assert refused.value.logged == 'duplicate key value violates unique constraint "told_once"'
    assert refused.value.values == "Key (id)=(7) already exists."
    assert str(refused.value).startswith(refused.value.logged)


def test_a_value_that_does_not_fit_is_quoted_in_the_values_alone(conn):
    with pytest.raises(StatementRefused) as refused, transaction(conn, None) as cur, server_refusals():
        cur.execute("insert into public.told values (cast('seven' as int))")

    assert (refused.value.constraint, refused.value.logged) == (None, "InvalidTextRepresentation")
    assert '"seven"' in refused.value.values


def test_a_lock_in_the_way_is_no_refusal(conn, database):
    with closing(connect(database)) as other, transaction(other, None) as holder:
        holder.execute("lock table public.told")
        with pytest.raises(LockTimeout), transaction(conn, None, lock_seconds=0.1) as cur, server_refusals():
            cur.execute("insert into public.told values (8)")


def test_best_effort_gives_up_without_an_error_and_leaves_other_faults(conn, database):
    with best_effort(), transaction(conn, None) as cur:
        cur.execute("insert into public.told values (7)")
    with closing(connect(database)) as other, transaction(other, None) as holder:
        holder.execute("lock table public.told")
        with best_effort(), transaction(conn, None, lock_seconds=0.1) as cur:
            cur.execute("insert into public.told values (8)")
    with closing(connect(database)) as gone:
        gone.close()
        with best_effort(), transaction(gone, None) as cur:
            cur.execute("insert into public.told values (9)")

    with transaction(conn, None) as cur:
        cur.execute("select id from public.told")
        assert [row.id for row in cur.fetchall()] == [7]
    with pytest.raises(ZeroDivisionError), best_effort():
        raise ZeroDivisionError
    with pytest.raises(psycopg2.errors.UniqueViolation), transaction(conn, None) as cur:
        cur.execute("insert into public.told values (7)")
