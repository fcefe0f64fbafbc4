"""Tests that the session that makes the tests' databases may be gone, as after a restart of the server."""

from __future__ import annotations

import os
from contextlib import closing

import psycopg2


def names(dsn: str) -> set[str]:
    with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cur:
        cur.execute("select datname from pg_database")
        return {name for (name,) in cur}


def test_a_database_is_made_and_dropped_though_the_session_that_did_it_is_gone(servers, postgres):
    name = f"shared_{os.getpid()}"
    with servers.database(name) as dsn:
        assert dsn.endswith(f"/{name}")
        assert name in names(postgres)
        end_the_session_of(servers, postgres)
    assert name not in names(postgres)

    end_the_session_of(servers, postgres)
    with servers.database(name):
        assert name in names(postgres)


def end_the_session_of(servers, postgres) -> None:
    with closing(psycopg2.connect(postgres)) as conn, conn.cursor() as cur:
        cur.execute("select pg_terminate_backend(%s, 5000)", (servers.admin.info.backend_pid,))
