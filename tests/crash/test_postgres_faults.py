"""Tests a Postgres that loses a backend, has no room or only reads: one line, exit 1.

The next run finishes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.cli.exits import Exit
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Idle
from lockstep.dev.servers import postgres
from lockstep.ledger.migrate import migrate, migrate_target
from lockstep.steps.upkeep.reap import reap
from support.scenes.drill import said, wait_stopped
from support.scenes.here import Here, Told

TINY = "1M"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("faulty")
    yield postgres.start(home)
    postgres.remove_server(home)


@pytest.fixture
def admin(server):
    with closing(psycopg2.connect(server.superuser_dsn)) as conn:
        conn.autocommit = True
        yield conn.cursor()


@pytest.fixture
def here(drill, server, admin):
    """Returns the drill on a Postgres that tests may damage."""
    admin.execute("drop database if exists drill with (force)")
    admin.execute("create database drill owner lockstep")
    dsn = re.sub(r"/\w+$", "/drill", server.dsn)
    with closing(connect(dsn)) as conn:
        migrate(conn)
        migrate_target(conn, load("drill"))
    return Here(replace(drill, dsn=dsn))


def exactly_once(drill) -> None:
    here = Here(drill)
    here.drain()
    reap(here.at.conn)
    assert isinstance(here.run().decision, Idle)
    assert drill.ask("select count(*) from public.drill") == [(150,)]
    assert drill.violations(rest=True) == []
    here.at.close()


def test_a_backend_killed_in_a_commit_takes_nothing_with_it(here):
    process = here.drill.start("--until-idle", fault="commit.published=stop")
    wait_stopped(process)
    ((pid,),) = here.drill.ask("select backend_pid from lockstep.attempt")

    os.kill(pid, signal.SIGKILL)  # the postmaster ends all others, and recovers
    os.kill(process.pid, signal.SIGCONT)
    answer = said(process)

    assert answer["decision"] == "Idle", answer
    assert len(here.drill.committed()) == 1
    exactly_once(here.drill)


def test_a_database_that_only_reads_is_said_in_one_line_with_its_exit_code(here, admin):
    admin.execute("alter database drill set default_transaction_read_only = on")
    environ = os.environ | {"LOCKSTEP_DSN": here.drill.dsn, "LOCKSTEP_KAFKA": here.drill.kafka}
    command = [str(Path(sys.executable).parent / "lockstep"), "run", "drill"]

    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == Exit.AWAY
    assert "is read-only" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    admin.execute("alter database drill reset default_transaction_read_only")
    exactly_once(here.drill)


@pytest.fixture
def tiny(server, admin):
    """Yields a tablespace on a disk of one megabyte, and the file that fills it."""
    place = Path(f"{server.data.parent}-tiny")
    place.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={TINY},mode=777", "tmpfs", str(place)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("this machine lets nobody mount a small disk")
        owner = server.data.stat()
        os.chown(place, owner.st_uid, owner.st_gid)
        admin.execute(f"create tablespace tiny owner lockstep location '{place}'")
        admin.execute("grant create on tablespace tiny to public")
        yield place / "filler"
        admin.execute("drop database if exists drill with (force)")
        admin.execute("drop tablespace tiny")
    finally:
        subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)
        shutil.rmtree(place, ignore_errors=True)


def test_a_full_disk_is_said_in_one_line_and_the_next_run_has_room(here, tiny):
    with closing(psycopg2.connect(here.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner; alter table public.drill set tablespace tiny")
    fill(tiny)

    answer = Told(here).end()

    assert isinstance(answer, Refusal), answer
    assert "No space left on device" in str(answer)
    assert "\n" not in str(answer)
    assert here.drill.committed() == []
    tiny.unlink()
    exactly_once(here.drill)


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as out:
        try:
            while out.write(b"\0" * 4096):
                pass
        except OSError:
            return
