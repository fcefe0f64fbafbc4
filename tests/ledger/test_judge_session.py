"""Tests that the session in which a suite is judged reads the rows of its attempt, reads nothing else and changes nothing."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from psycopg2 import Error, errors

from lockstep.adapters.connection.judge import JUDGE_ROLE
from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.errors import Refusal, Superseded
from lockstep.core.staging import AttemptId
from lockstep.ledger.staging.judged import JUDGED_ROWS
from lockstep.steps.batch.expectations import judging_session
from support.scenes.forged import COORDINATES, KINDS

ROWS_TABLE = (
    f"create table public.drill_rows (id text, n int, {COORDINATES}, primary key (_stream, _offset, _ordinal));"
)
TARGETS = {**{kind: (kind, "") for kind in KINDS}, "behind a view": ("append", ROWS_TABLE)}
PRIVILEGES = """select replace(n.nspname, pg_my_temp_schema()::regnamespace::text, 'pg_temp') || '.' || c.relname, p.privilege
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    cross join unnest(array['select', 'insert', 'update', 'delete', 'truncate']) as p (privilege)
    where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') and c.relkind in ('r', 'p', 'v', 'm', 'f')
      and has_table_privilege(c.oid, p.privilege)"""
VERDICT = """select count(*) as looked_at, count(*) filter (where each -> 'success' = 'true') as held,
        max((each -> 'result' ->> 'unexpected_count')::int) as unexpected
    from lockstep.verdict v, jsonb_array_elements(v.result -> 'results') each"""
LEFT = "select count(*) from pg_class where relname = 'judged_rows'"
SUITE = {
    "name": "drill",
    "expectations": [
        {"type": kind, "kwargs": kwargs, "severity": "warning"}
        for kind, kwargs in (
            ("expect_column_values_to_be_between", {"column": "n", "max_value": 119}),
            ("expect_column_values_to_match_regex", {"column": "id", "regex": "^r"}),
            ("expect_column_mean_to_be_between", {"column": "n", "min_value": 1}),
            ("expect_table_row_count_to_be_between", {"min_value": 1}),
        )
    ],
}


@pytest.fixture(params=TARGETS)
def here(contents, request):
    kind, target_sql = TARGETS[request.param]
    return contents(kind, target_sql)


@pytest.fixture(params=["append", "behind a view"])
def judged(contents, request):
    """Yields the drill with a first batch committed and a second one staged, its attempt, and the session that judges it."""
    kind, target_sql = TARGETS[request.param]
    here = contents(kind, target_sql, more=", limits=Limits(records=100)")
    here.run()
    attempt = here.staged()
    with closing(judging_session(here.drill.dsn, attempt)) as conn:
        yield here, attempt, conn


def asked(conn, statement: str) -> list[tuple]:
    with conn.cursor() as cur:
        cur.execute(statement)
        return cur.fetchall()


def test_the_judge_reads_the_rows_of_its_attempt_whatever_the_target(here):
    (here.drill.home / "drill" / "expectations.json").write_text(json.dumps(SUITE))
    attempt = here.staged()
    with closing(judging_session(here.drill.dsn, attempt)) as conn:
        assert asked(conn, f"select count(*), count(distinct id), sum(n) from {JUDGED_ROWS}") == [(150, 150, 11175)]
        assert asked(conn, PRIVILEGES) == [("pg_temp.judged_rows", "select")]

    here.finish(attempt, "stage")

    assert here.sql(VERDICT) == [(4, 3, 30)]


def test_the_judge_reads_no_row_of_another_batch(judged):
    here, attempt, conn = judged
    ((rows,),) = here.sql(f"select sum(rows)::int from lockstep.manifest where batch_id = {attempt.batch_id}")
    assert 0 < rows < 150
    assert asked(conn, f"select count(*) from {JUDGED_ROWS}") == [(rows,)]


def test_the_judge_reads_no_table_and_writes_nothing_whatever_its_suite_says(judged):
    _, attempt, conn = judged
    tables = (
        "lockstep.commit",
        "lockstep.reject",
        "lockstep.erasure_salt",
        "public.drill",
        f"lockstep_staging.{attempt.table}",
    )
    refusals = {
        **dict.fromkeys((f"select * from {table}" for table in tables), errors.InsufficientPrivilege),
        "select nextval('lockstep.token_seq')": errors.InsufficientPrivilege,
        "select lockstep.show_to_judge(1, 1)": errors.InsufficientPrivilege,
        "drop view pg_temp.judged_rows": errors.ReadOnlySqlTransaction,
        "create temp table t (a int)": errors.ReadOnlySqlTransaction,
        "set transaction read write": errors.ActiveSqlTransaction,
    }
    assert {statement: refusal(conn, statement) for statement in refusals} == refusals


def refusal(conn, statement: str) -> type[Error] | None:
    """Returns the kind of error by which the database refuses the statement."""
    try:
        with conn.cursor() as cur:
            cur.execute(statement)
    except Error as error:
        return type(error)
    finally:
        conn.rollback()
    return None


def test_another_role_that_a_query_takes_on_writes_nothing_and_ends_with_the_query(judged):
    _, _, conn = judged
    for end in (conn.commit, conn.rollback):
        asked(conn, "select set_config('role', 'lockstep_stager', false)")
        end()
        assert asked(conn, "select current_user") == [(JUDGE_ROLE,)]
    with pytest.raises(errors.ReadOnlySqlTransaction):
        asked(conn, "select set_config('role', 'lockstep_planner', false); select nextval('lockstep.token_seq')")
    conn.rollback()
    assert asked(conn, "select current_user") == [(JUDGE_ROLE,)]


def test_a_query_that_fails_leaves_the_judge_its_rows(judged):
    _, _, conn = judged
    with pytest.raises(errors.UndefinedColumn):
        asked(conn, f"select nowhere from {JUDGED_ROWS}")
    conn.rollback()
    assert asked(conn, f"select count(*) > 0 from {JUDGED_ROWS}") == [(True,)]


def test_no_other_session_sees_what_the_judge_is_shown_and_nothing_of_it_is_left(judged):
    here, _, conn = judged
    assert asked(conn, LEFT) == [(1,)]
    assert here.sql(LEFT) == [(0,)]
    conn.commit()
    conn.close()
    assert here.sql(LEFT) == [(0,)]
    assert here.sql(
        f"select count(*) from pg_class c, aclexplode(c.relacl) a where a.grantee = '{JUDGE_ROLE}'::regrole"
    ) == [(0,)]


def test_a_row_of_a_task_that_is_not_of_the_batch_is_not_judged(contents):
    here = contents()
    attempt = here.staged()
    here.forge(
        attempt, "insert into {table} (_stream, _offset, _ordinal, _task, id, n) values (1, 3, 9, 77, 'forged', 1)"
    )
    with closing(judging_session(here.drill.dsn, attempt)) as conn:
        assert asked(conn, f"select count(*) from {JUDGED_ROWS} where id = 'forged'") == [(0,)]


def test_an_attempt_without_a_judgement_to_come_is_shown_to_nobody(contents):
    here = contents()

    def refused(attempt):
        with pytest.raises(Superseded, match="is not its newest, or is not at its judgement"):
            judging_session(here.drill.dsn, attempt)

    older = here.staged()
    refused(AttemptId(older.batch_id + 1, older.token, older.nonce))
    here.sql("update lockstep.attempt set lease_until = now() - interval '1 hour'")
    attempt = here.validated()
    refused(older)
    refused(attempt)
    here.commit(attempt)
    refused(attempt)


def test_hidden_rows_whose_view_is_gone_are_shown_to_nobody(contents):
    here = contents("append", ROWS_TABLE)
    attempt = here.staged()
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("alter view public.drill rename to elsewhere")
    with pytest.raises(Refusal, match=r"no view leaves the hidden rows of public\.drill_rows out"):
        judging_session(here.drill.dsn, attempt)
