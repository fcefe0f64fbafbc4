from __future__ import annotations

import itertools
import os
import re
from contextlib import closing

import psycopg2
import pytest

from command_line import CommandLine

NUMBERS = itertools.count()


@pytest.fixture
def lockstep(monkeypatch, capsys, tmp_path):
    """`lockstep("status", "orders")` calls the command line in a folder of its own."""
    return CommandLine(monkeypatch, capsys, tmp_path)


@pytest.fixture
def empty_database(servers, worker_id):
    """The DSN of a database that was never migrated."""
    server, name = servers.postgres(), f"empty_{worker_id}_{os.getpid()}_{next(NUMBERS)}"
    with closing(psycopg2.connect(server.superuser_dsn)) as admin:
        admin.autocommit = True
        admin.cursor().execute(f"create database {name} owner lockstep")
        yield re.sub(r"/\w+$", f"/{name}", server.dsn)
        admin.cursor().execute(f"drop database {name} with (force)")


@pytest.fixture
def ledger_rows(database):
    """How many rows each table of the ledger has."""

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
