"""Tests real Spark whose tasks stage with a login of their own, and what they say when that login leads nowhere."""

from __future__ import annotations

import json
import re
from contextlib import closing

import psycopg2
import pytest

from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.planning.decisions import Caller
from lockstep.engine.chosen import engine_of
from lockstep.steps.batch.run import run as carry_out
from lockstep.steps.upkeep.reap import reap
from spark.test_written_once import behind_view
from support.engines import BY_SPARK, IN_PROCESS

pytestmark = pytest.mark.long
DDL = "id text, n int"
TWICE = "def transform(records):\n    return records.selectExpr('*', 'n * 2 as twice').drop('n')\n"


@pytest.fixture
def login(postgres, database):
    """Yields name and DSN of a login that may do nothing yet."""
    name = f"stages_{re.sub(r'[^a-z0-9]', '_', database.rpartition('/')[2])}"
    with closing(psycopg2.connect(postgres)) as admin:
        admin.autocommit = True
        admin.cursor().execute(f"create role {name} login password 'canary-of-the-stager'")
        yield name, re.sub(r"//[^@]+@", f"//{name}:canary-of-the-stager@", database)
        admin.cursor().execute(f"drop role {name}")


@pytest.fixture
def grant(postgres):
    """Returns `grant(name)`, which makes a login an executor's."""

    def act(name: str) -> None:
        with closing(psycopg2.connect(postgres)) as admin:
            admin.autocommit = True
            admin.cursor().execute(f"grant lockstep_executor to {name}")

    return act


def run(made, dsn: str, choice=BY_SPARK):
    at, _, folder = made.parts()
    at.stager_dsn = dsn
    engine = engine_of(folder, at.broker, at.dsn, lambda: None, choice, stager_dsn=dsn)
    return carry_out(at, engine, folder, Caller("test"))


def held(made) -> bool:
    """Returns True if every record is there once, after refused attempts have left nothing."""
    reap(made.parts()[0].conn)
    return made.violations() == []


def records(first: int, until: int) -> list[tuple[str, str]]:
    return [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(first, until)]


def test_spark_stages_with_a_login_that_reads_nothing(pipeline, topic, produce, login, grant):
    name, dsn = login
    source = topic(partitions=2)
    produce(source, [*records(0, 200), ("bad", "no JSON")])
    plain = pipeline(source, "id string, n int", DDL)
    twice = pipeline(source, "id string, n int", "id text, twice int", transform=TWICE)

    for made in (plain, twice):
        with pytest.raises(Unreachable) as refused:
            run(made, dsn)
        line = str(refused.value)
        assert f"{made.name}: executors cannot stage as {name} at 127.0.0.1:" in line, line
        assert "permission denied to set role" in line, line
        assert "canary-of-the-stager" not in line
        assert "\n" not in line
        assert made.ask("select fault from lockstep.attempt order by token desc limit 1") == [("surroundings",)]
    grant(name)
    for made in (plain, twice):
        assert run(made, dsn).went_on
        assert held(made)
    assert plain.ask(f"select count(*), sum(n) from public.{plain.name}") == [(200, sum(range(200)))]
    assert twice.ask(f"select count(*), sum(twice) from public.{twice.name}") == [(200, 2 * sum(range(200)))]
    assert plain.ask("select count(*) from lockstep.reject") == [(2,)]


def test_an_address_that_executors_do_not_reach_is_one_line_before_the_read(pipeline, topic, produce, login, grant):
    name, dsn = login
    grant(name)
    source = topic(partitions=2)
    produce(source, records(0, 50))
    made = pipeline(source, "id string, n int", DDL)

    with pytest.raises(Unreachable) as refused:
        run(made, re.sub(r":\d+/", ":9/", dsn))

    assert f"executors cannot stage as {name} at 127.0.0.1:9: " in str(refused.value)
    assert "canary-of-the-stager" not in str(refused.value)
    assert "set LOCKSTEP_STAGER_DSN to a login and an address that executors reach" in str(refused.value)
    assert made.ask("select count(*) from lockstep.manifest") == [(0,)]
    assert run(made, dsn).went_on
    assert held(made)


def test_ranges_that_tasks_would_commit_are_refused_and_stay_with_one_process(pipeline, topic, produce, login, grant):
    name, dsn = login
    grant(name)
    source = topic(partitions=2)
    produce(source, records(0, 50))
    made = pipeline(source, "id string, n int", DDL, guarantee="PerPartition()")

    with pytest.raises(Refusal) as refused:
        run(made, dsn)

    assert f"unset LOCKSTEP_STAGER_DSN for {made.name}, or give it guarantee=PerBatch()" in str(refused.value)
    assert run(made, dsn, choice=IN_PROCESS).went_on
    assert held(made)


def test_rows_are_staged_where_tasks_could_write_them_once(pipeline, topic, produce, login, grant):
    name, dsn = login
    grant(name)
    source = topic(partitions=2)
    produce(source, records(0, 50))
    made = behind_view(pipeline(source, "id string, n int", DDL))

    assert run(made, dsn).went_on

    ((route,),) = made.ask("select route ->> 'because' from lockstep.attempt")
    assert "rows are staged" in route, route
    assert "the login of executors stages alone" in route, route
    assert made.ask("select count(*) from lockstep.landed") == [(0,)]
    assert made.ask(f"select count(*) from public.{made.name}") == [(50,)]
    assert held(made)
