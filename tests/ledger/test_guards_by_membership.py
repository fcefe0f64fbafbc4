"""Tests that guards go by what a login is a member of, and not by the role that it has set."""

from __future__ import annotations

from contextlib import closing
from uuid import uuid4

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

TABLE = """insert into lockstep_lake.iceberg_tables values
    ('lockstep', 'sales', 'orders', 'l/orders/metadata/0', null, 'TABLE') returning 1"""
MOVE = """update lockstep_lake.iceberg_tables set previous_metadata_location = metadata_location,
    metadata_location = 'l/orders/metadata/1'"""
FIVE = ("lockstep_planner", "lockstep_stager", "lockstep_committer", "lockstep_partition", "lockstep_reader")


@pytest.fixture
def login(database, postgres):
    """Returns `login(*roles)`, the DSN of a new login that inherits these roles."""
    made = []
    name = psycopg2.extensions.parse_dsn(database)["dbname"]

    def make(*roles: str) -> str:
        made.append(f"by_membership_{uuid4().hex[:8]}")
        with closing(psycopg2.connect(postgres)) as conn, conn, conn.cursor() as cur:
            cur.execute(f"create role {made[-1]} login password 'secret' in role {', '.join(roles)}")
        return make_dsn(postgres, user=made[-1], password="secret", dbname=name)  # noqa: S106 - of a test's login

    yield make
    with closing(psycopg2.connect(postgres)) as conn, conn, conn.cursor() as cur:
        for each in made:
            cur.execute(f"drop role {each}")


def refused(dsn: str, *statements: str) -> str | None:
    with closing(psycopg2.connect(dsn)) as conn:
        try:
            with conn, conn.cursor() as cur:
                for statement in statements:
                    cur.execute(statement)
        except psycopg2.Error as error:
            return error.diag.constraint_name or str(error)
    return None


@pytest.mark.parametrize("how", ["set role lockstep_committer", "set role none", "select 1"])
def test_a_runs_login_moves_no_pointer_without_offsets_whatever_role_it_has_set(ledger, login, how):
    ledger.ask(TABLE)
    assert refused(login(*FIVE), how, MOVE) == "offsets_with_pointer"


def test_a_login_that_is_no_committer_moves_a_pointer_as_before(ledger, login, postgres, database):
    ledger.ask(TABLE)
    stranger = login("lockstep_reader")
    user = psycopg2.extensions.parse_dsn(stranger)["user"]
    dsn = make_dsn(postgres, dbname=psycopg2.extensions.parse_dsn(database)["dbname"])
    with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(f"grant update on lockstep_lake.iceberg_tables to {user}")
    try:
        assert refused(stranger, MOVE) is None
    finally:
        with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(f"revoke update on lockstep_lake.iceberg_tables from {user}")


@pytest.mark.parametrize("how", ["set role lockstep_partition", "set role none", "select 1"])
@pytest.mark.parametrize(
    "statement",
    ["delete from lockstep.coverage", "delete from lockstep.claim", "update lockstep.stream set position = 10"],
    ids=["coverage", "claims", "positions"],
)
def test_a_tasks_login_changes_no_range_of_others_whatever_role_it_has_set(ledger, login, statement, how):
    s = ledger.stream(0)
    ledger.done({s: (0, 10)})
    ledger.planned({s: (10, 20)})
    if "position" in statement:
        statement = statement.replace("10", "20")
    assert refused(login("lockstep_partition"), how, statement) == "own_range"
