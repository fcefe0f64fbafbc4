"""Tests a Postgres that stops at once, in the middle of work, and comes back.

No staged row is lost, and none is committed twice.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import closing
from dataclasses import replace

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.dev.servers import postgres
from lockstep.ledger.migrate import migrate, migrate_target
from support.scenes.drill import said, wait_stopped


@pytest.fixture
def alone(drill, tmp_path_factory):
    """Yields the drill on its own Postgres, which may be stopped."""
    home = tmp_path_factory.mktemp("postgres")
    server = postgres.start(home)
    with closing(psycopg2.connect(server.superuser_dsn)) as admin:
        admin.autocommit = True
        admin.cursor().execute("create database drill owner lockstep")
    dsn = re.sub(r"/\w+$", "/drill", server.dsn)
    with closing(connect(dsn)) as conn:
        migrate(conn)
        migrate_target(conn, load("drill"))
    yield replace(drill, dsn=dsn), home, server
    postgres.remove_server(home)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("stage.done", marks=pytest.mark.long),
        pytest.param("validate.after", marks=pytest.mark.long),
        "commit.published",
        "commit.done_unacknowledged",
    ],
)
def test_an_immediate_restart_is_survived_by_the_run_or_by_the_next(alone, point):
    drill, home, server = alone
    process = drill.start("--until-idle", fault=f"{point}=stop")
    wait_stopped(process)

    postgres.stop(server, postgres.Mode.IMMEDIATE)
    postgres.start(home, server.port)
    os.kill(process.pid, signal.SIGCONT)
    said(process)
    drill.run("--until-idle", "--take-over")

    assert len(drill.committed()) == 1
    assert drill.ask("select count(*) from public.drill") == [(150,)]
    assert drill.violations() == []
