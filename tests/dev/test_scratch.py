"""The Postgres of a trial ends with its process, however that ends, and with no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from lockstep.dev import scratch
from lockstep.dev.servers import postgres
from lockstep.ledger.migrate import known_migrations

pytestmark = pytest.mark.server
TRIAL = """
import os, sys
from pathlib import Path
from lockstep.adapters.postgres import connect
from lockstep.dev import scratch
with scratch.scratch_ledger():
    pass
if os.fork() == 0:
    sys.exit()  # a child's end is no end of the trial
os.wait()
with scratch.scratch_ledger() as dsn:
    connect(dsn).close()
    (home,) = Path(os.environ["TMPDIR"]).glob("lockstep-try-*")
    print(home, dsn, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def trial(tmp_path):
    """`trial()` is a process with a server of its own: the process, the server's folder and the ledger's DSN."""
    begun: list[subprocess.Popen[str]] = []

    def begin() -> tuple[subprocess.Popen[str], Path, str]:
        child = subprocess.Popen(
            [sys.executable, "-c", TRIAL],
            env=os.environ | {"TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        begun.append(child)
        home, dsn = child.stdout.readline().split()
        return child, Path(home), dsn

    yield begin
    for child in begun:
        child.kill()
        child.communicate()
    for home in tmp_path.glob(f"{scratch.FOLDER_PREFIX}*"):
        postgres.remove_server(home)


def is_up(dsn: str) -> bool:
    try:
        psycopg2.connect(dsn).close()
    except psycopg2.OperationalError:
        return False
    return True


def test_a_trials_server_ends_with_it_and_that_of_a_killed_one_with_the_next(trial, tmp_path):
    killed, home, dsn = trial()
    assert is_up(dsn)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert is_up(dsn)

    another, its_home, its_dsn = trial()
    assert not is_up(dsn)
    assert not home.exists()
    assert is_up(its_dsn)

    another.communicate("")
    assert another.returncode == 0
    assert not is_up(its_dsn)
    assert not its_home.exists()
    assert list(tmp_path.iterdir()) == []


def test_each_trial_has_an_empty_ledger_and_leaves_none():
    with scratch.scratch_ledger() as one, scratch.scratch_ledger() as other:
        with closing(psycopg2.connect(one)) as conn, conn, conn.cursor() as cur:
            cur.execute("create table public.mine (id int)")
        with closing(psycopg2.connect(other)) as conn, conn.cursor() as cur:
            cur.execute("select to_regclass('public.mine'), (select count(*) from lockstep.migration)")
            mine, migrations = cur.fetchone()
    assert mine is None
    assert migrations == len(known_migrations())
    assert not is_up(one)
    assert not is_up(other)
