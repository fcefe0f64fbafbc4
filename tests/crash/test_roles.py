"""Tests that each step sets the role it needs.

A login that inherits nothing, and has no rights by itself, runs a pipeline.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace

import psycopg2
import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import OWNER, STAGER, connect, transaction
from lockstep.core.staging import AttemptId
from lockstep.ledger.batch.commit import my_backend
from lockstep.ledger.migrate import require_migrated
from lockstep.steps.attempt.opening import end_older
from lockstep.steps.attempt.resolve import _end_committer

ROLES = ("planner", "stager", "committer", "partition", "reader")


@pytest.fixture
def bare(drill, postgres):
    """Returns the drill under its own login, a member of the roles that inherits none of them."""
    login = f"bare_{re.sub(r'[^a-z0-9]', '_', drill.topic)}"
    with closing(psycopg2.connect(postgres)) as admin:
        admin.autocommit = True
        cur = admin.cursor()
        cur.execute(f"create role {login} login noinherit password 'bare'")
        cur.execute(f"grant {', '.join(f'lockstep_{role}' for role in ROLES)} to {login}")
    return replace(drill, dsn=re.sub(r"//[^@]+@", f"//{login}:bare@", drill.dsn))


def test_every_step_works_for_a_login_that_inherits_nothing(drill, bare):
    with pytest.raises(errors.InsufficientPrivilege):
        bare.ask("select * from lockstep.batch")
    require_migrated(connect(bare.dsn))

    answer = bare.run("--until-idle")

    assert answer["decision"] == "Idle"
    assert drill.ask("select count(*) from public.drill") == [(150,)]
    assert drill.violations() == []


def test_it_ends_connections_that_older_attempts_have_left(drill, bare):
    bare.run()
    left = connect(bare.dsn)
    record = "insert into lockstep.task_backend select batch_id, token, %s, %s from lockstep.attempt"
    with left, left.cursor() as cur:
        backend = my_backend(cur)
    with closing(connect(drill.dsn)) as conn, transaction(conn, OWNER) as cur:
        cur.execute(record, backend)

    with closing(connect(bare.dsn)) as conn, transaction(conn, STAGER) as cur:
        end_older(cur, 1)
        cur.execute("select current_user::text")
        assert cur.fetchone() == (STAGER,)
    _end_committer(bare.dsn, AttemptId(1, 1))  # whose connection is gone

    assert drill.ask("select pid from pg_stat_activity where pid = %s", backend[0]) == []
    left.close()


def test_every_step_works_for_it_on_spark_too(drill, bare):
    assert bare.run("--spark")["committed"]
    assert drill.violations() == []
