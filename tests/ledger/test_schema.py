"""Tests that ledger/schema.sql is the ledger that the migrations make: the same text, and the same objects."""

from __future__ import annotations

import os
import re
from contextlib import closing
from importlib.resources import files
from typing import Any

import psycopg2
import pytest

from lockstep.adapters.postgres import connect, transaction
from lockstep.ledger.admin import catalog
from write_schema import schema

SCHEMA = files("lockstep.ledger").joinpath("schema.sql")
OBJECTS = {"owner", "column", "constraint", "index", "trigger", "function"}
VIEWS = """select c.relname, pg_get_viewdef(c.oid) from pg_class c
    where c.relnamespace = 'lockstep'::regnamespace and c.relkind = 'v' order by 1"""
INDEXES = "select indexname, indexdef from pg_indexes where schemaname = 'lockstep' order by 1"
OPTIONS = (
    "select relname, reloptions from pg_class where relnamespace = 'lockstep'::regnamespace and reloptions is not null"
)


@pytest.fixture
def read_from_the_file(servers):
    """Yields a connection to a ledger that `schema.sql` made, on a server that has the roles."""
    name = f"by_schema_{os.getpid()}"
    with servers.empty_database(name) as dsn:
        superuser = re.sub(r"/\w+$", f"/{name}", servers.postgres().superuser_dsn)
        with closing(psycopg2.connect(superuser)) as other:
            cur = other.cursor()
            cur.execute("create schema lockstep authorization lockstep_owner")
            cur.execute("create schema lockstep_feed authorization lockstep_owner")
            cur.execute("create schema lockstep_send authorization lockstep_owner")
            cur.execute("create schema lockstep_lake authorization lockstep_owner")
            cur.execute("set role lockstep_owner; set search_path = lockstep")
            cur.execute(SCHEMA.read_text(encoding="utf-8"))
            other.commit()
        with closing(connect(dsn)) as made:
            yield made


def test_the_file_is_what_the_migrations_make(conn):
    with transaction(conn, None) as cur:
        assert SCHEMA.read_text(encoding="utf-8") == schema(cur), "after a migration: make schema"


def test_the_file_run_by_itself_makes_the_same_ledger(conn, read_from_the_file):
    migrated, made = objects(conn), objects(read_from_the_file)
    assert {kind for kind, _ in migrated["catalog"]} == OBJECTS
    assert all(migrated.values())
    assert made == migrated


def objects(conn) -> dict[str, Any]:
    with transaction(conn, None) as cur:
        found = {
            "catalog": {k: what for k, what in catalog.found(cur).items() if k[0] in OBJECTS and "staging" not in k[1]}
        }
        for name, query in (("views", VIEWS), ("indexes", INDEXES), ("options", OPTIONS)):
            cur.execute(query)
            found[name] = sorted(map(tuple, cur.fetchall()))  # type: ignore[assignment]
    return found
