from __future__ import annotations

import itertools
import os
import re
from contextlib import closing

import psycopg2
import pytest

from support.scenes.command_line import TARGET, CommandLine
from support.scenes.here import Here

NUMBERS = itertools.count()
# One broker holds one copy. An older Postgres has no checksums. The tests' own login migrates, too.
KNOWN = {"replication.factor", "min.insync.replicas", "data_checksums", "privileges"}
OF_A_RUN = ", ".join(f"lockstep_{role}" for role in ("planner", "stager", "committer", "partition", "reader"))
APPENDED = TARGET.replace("id text primary key", "id text").replace(
    "_batch int8 not null", "_batch int8 not null, primary key (_stream, _offset, _ordinal)"
)
DEFINITION = """
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline
P = Pipeline(
    name="{name}", topic="{topic}", format=Json("id string, n int"), target=Append("public.orders"),
    schedule={schedule!r}, limits=Limits(bytes={limit}),
)
"""


@pytest.fixture
def lockstep(monkeypatch, capsys, tmp_path):
    """Returns `lockstep("status", "orders")`, which calls the command line in a separate folder."""
    return CommandLine(monkeypatch, capsys, tmp_path)


@pytest.fixture
def empty_database(servers, worker_id):
    """Yields the DSN of a database that was never migrated."""
    server, name = servers.postgres(), f"empty_{worker_id}_{os.getpid()}_{next(NUMBERS)}"
    with closing(psycopg2.connect(server.superuser_dsn)) as admin:
        admin.autocommit = True
        admin.cursor().execute(f"create database {name} owner lockstep")
        yield re.sub(r"/\w+$", f"/{name}", server.dsn)
        admin.cursor().execute(f"drop database {name} with (force)")


@pytest.fixture
def ledger_rows(database):
    """Returns the number of rows in each table of the ledger."""

    def count():
        conn = psycopg2.connect(database)
        with conn, conn.cursor() as cur:
            cur.execute("set local role lockstep_owner")
            cur.execute("select relname from pg_class where relnamespace = 'lockstep'::regnamespace and relkind = 'r'")
            tables = [name for (name,) in cur.fetchall()]
            counts = {}
            for table in tables:
                cur.execute(f"select count(*) from lockstep.{table}")
                counts[table] = cur.fetchone()[0]
        conn.close()
        return counts

    return count


@pytest.fixture
def define(lockstep, database, kafka):
    """Returns `define(name, topic)`, which makes a pipeline with its target."""
    lockstep.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA=kafka, SPARK_MASTER="local[2]")

    def make(name: str, topic: str, schedule: str | None = "*/5 * * * *", limit: int | None = None) -> None:
        lockstep.define(
            name, init=DEFINITION.format(name=name, topic=topic, schedule=schedule, limit=limit), target=APPENDED
        )
        if name == "orders":
            assert lockstep("migrate", name).code == 0

    return make


@pytest.fixture
def sound(define, topic):
    """Makes a pipeline on a topic of two partitions."""
    name = topic(partitions=2)
    define("orders", name)
    return name


@pytest.fixture
def admin(database, postgres):
    """Runs statements in the test's database as the superuser."""
    with closing(psycopg2.connect(re.sub(r"/\w+$", database[database.rindex("/") :], postgres))) as conn:
        conn.autocommit = True
        yield conn.cursor().execute


@pytest.fixture
def login(lockstep, database, admin):
    """Yields `login(roles)`, which sets LOCKSTEP_DSN to a new login that is a member of these roles."""
    made = []

    def make(roles: str = OF_A_RUN, password: str = "own") -> str:  # noqa: S107 - it lives as long as the test
        name = f"login_{os.getpid()}_{next(NUMBERS)}"
        admin(f"create role {name} login password '{password}'")
        admin(f"grant {roles} to {name}")
        made.append(name)
        lockstep.environ(LOCKSTEP_DSN=re.sub(r"//[^@]+@", f"//{name}:{password}@", database))
        return name

    yield make
    for name in made:
        admin(f"drop owned by {name}")
        admin(f"drop role {name}")


@pytest.fixture
def findings(lockstep):
    """Returns `findings("orders")`: the doctor's findings by check, without those of every test's stack."""

    def look(*name: str) -> dict[str, dict]:
        said = lockstep("doctor", *name, "--json")
        document = said.document
        assert said.err == ""
        assert said.code == (0 if document["ok"] else 1)
        problems = [f for f in document["findings"] if f["severity"] == "problem"]
        assert (document["problems"], document["ok"]) == (len(problems), not problems)
        return {f["check"]: f for f in document["findings"] if not (f["check"] in KNOWN and f["severity"] == "warning")}

    return look


@pytest.fixture
def here(lockstep, drill, monkeypatch):
    """Yields the drill's pipeline on the command line. Its batches are done without Spark."""
    lockstep.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))
    here = Here(drill)
    for door in ("planning", "replaying", "running"):
        monkeypatch.setattr(f"lockstep.cli.batches.{door}.engine_for", lambda *_: here.engine)
    yield here
    here.at.close()
