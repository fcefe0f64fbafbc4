"""Tests PgBouncer between Lockstep and Postgres: in session mode all works, in transaction mode nothing begins."""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
import tempfile
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import psycopg2
import pytest
from psycopg2.extensions import parse_dsn

import lockstep
from lockstep.adapters.connection.opened import open_stager
from lockstep.adapters.connection.poolers import POOLED_BY_SESSION
from lockstep.adapters.postgres import connect, connect_as_is
from lockstep.core.errors import Refusal
from lockstep.dev.servers import cluster, ports, processes
from lockstep.dev.servers.postgres import Mode

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PGBOUNCER is None, reason="no pgbouncer: apt-get install pgbouncer"),
]
SETTINGS = """[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = plain
auth_file = {users}
pool_mode = {mode}
default_pool_size = 20
"""
SUITE = {
    "name": "drill",
    "expectations": [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}, "severity": "critical"}
    ],
}


@pytest.fixture
def pooled(database, tmp_path):
    """Returns `pooled(mode)`: the DSN of a pooler of this mode before the test's database."""
    made, folders = [], []

    def start(mode: str) -> str:
        place = Path(tempfile.mkdtemp(prefix="lockstep-pooler-", dir="/var/tmp"))
        folders.append(place)
        own, parts = ports.choose(tmp_path), parse_dsn(database)
        users, settings = place / "users.txt", place / "pgbouncer.ini"
        users.write_text(f'"{parts["user"]}" "{parts["password"]}"\n')
        settings.write_text(SETTINGS.format(own=own, users=users, mode=mode, **parts))
        owner = cluster.account()
        for each in (place, users, settings):
            each.chmod(0o755 if each.is_dir() else 0o644)
        made.append(processes.launch([str(PGBOUNCER), str(settings)], log=tmp_path / f"{mode}.log", account=owner))
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with suppress(OSError), closing(socket.create_connection(("127.0.0.1", own), 1)):
                return re.sub(r"@[^/]+/", f"@127.0.0.1:{own}/", database)
            time.sleep(0.05)
        raise AssertionError((tmp_path / f"{mode}.log").read_text())

    POOLED_BY_SESSION.clear()
    yield start
    for process in made:
        processes.stop_process(process, Mode.IMMEDIATE.value, patience=10)
    for folder in folders:
        shutil.rmtree(folder)


def test_a_pooler_in_transaction_mode_is_refused_at_once(pooled):
    dsn = pooled("transaction")
    with pytest.raises(Refusal, match="gives a session another connection for each transaction") as refused:
        connect(dsn)
    assert str(refused.value.next_command) == "set pool_mode to session there, or LOCKSTEP_DSN to Postgres itself"


def test_a_refused_pooler_keeps_no_setting_of_ours_for_another_application(pooled):
    dsn = pooled("transaction")
    settings = "select current_setting('search_path'), current_setting('idle_in_transaction_session_timeout')"
    with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(settings)
        before = cur.fetchone()

    with pytest.raises(Refusal):
        connect(dsn)
    connect_as_is(dsn).close()
    with pytest.raises(Refusal):
        open_stager(dsn)

    for _ in range(10):
        with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(settings)
            assert cur.fetchone() == before


def test_a_busy_pooler_in_transaction_mode_is_never_taken_for_one_in_session_mode(pooled):
    dsn, is_over = pooled("transaction"), threading.Event()

    def other_application(seed: int) -> None:
        pick = random.Random(seed)  # noqa: S311 - traffic
        with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cur:
            conn.autocommit = True
            while not is_over.is_set():
                cur.execute("select pg_sleep(%s)", (pick.random() * 0.02,))

    others = [threading.Thread(target=other_application, args=(seed,)) for seed in range(20)]
    for other in others:
        other.start()
    try:
        for _ in range(40):
            with pytest.raises(Refusal, match="another connection for each transaction"):
                connect(dsn)
            assert dsn not in POOLED_BY_SESSION
    finally:
        is_over.set()
        for other in others:
            other.join()


@pytest.mark.parametrize("reader", ["process", "spark"])
def test_a_whole_run_goes_through_a_pooler_in_session_mode(pooled, drill, reader, monkeypatch):
    (drill.home / "drill" / "expectations.json").write_text(json.dumps(SUITE))
    monkeypatch.setenv("LOCKSTEP_DSN", pooled("session"))
    monkeypatch.setenv("LOCKSTEP_KAFKA", drill.kafka)
    monkeypatch.setenv("LOCKSTEP_ENGINE", reader)

    assert lockstep.run("drill", until_idle=True).written == 150

    assert drill.ask("select count(*), sum(n) from public.drill") == [(150, sum(range(150)))]
    assert drill.ask("select success from lockstep.verdict") == [(True,)]
    assert lockstep.verify("drill", deep=True).ok
    assert drill.violations(rest=True) == []
