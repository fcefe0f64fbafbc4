"""Holds the common parts of the tests of `erase`: a person's records among others', and a search in every table."""

from __future__ import annotations

import json

import psycopg2
from psycopg2 import sql

from lockstep.core.changes.person import Person
from lockstep.steps.changes.erase import erase
from lockstep.steps.proof.verify import verify

KEY = "person-4711"
TABLES = """select n.nspname, c.relname, a.attname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid where c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
    and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_t%'"""


def erase_key(here, key: str = KEY, column: str | None = "id", *, preview: bool = False, why: str = "letter 12"):
    return erase(here.at.conn, here.at.broker, here.folder.pipeline, key, column, Person("me", why), preview=preview)


def feed(produce, topic: str, key: str = KEY) -> None:
    """Sends the person's records among others': three that become rows, three that are rejects and hold the key."""
    for partition in range(2):
        for turn in range(3):
            records = [(f"o{i}", json.dumps({"id": f"other-{partition}-{i}", "n": turn})) for i in range(4)]
            its = json.dumps({"id": key, "n": 10 + turn}) if partition == 0 else "{broken " + key
            produce(topic, [*records, (key, its)], partition=partition)


def holding(dsn: str, needle: str = KEY) -> list[str]:
    """Returns every column of every table that contains these bytes, as text, as bytes or in JSON."""
    found = []
    conn = psycopg2.connect(dsn)
    with conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner; set bytea_output = 'escape'")
        cur.execute(TABLES)
        columns = cur.fetchall()
        assert {("lockstep", "reject", "value"), ("lockstep", "attempt", "error")} <= set(columns)
        for schema, table, column in columns:
            statement = sql.SQL("select exists (select from {} t where strpos(t.{}::text, %s) > 0)")
            cur.execute(statement.format(sql.Identifier(schema, table), sql.Identifier(column)), (needle,))
            if cur.fetchone() == (True,):
                found.append(f"{schema}.{table}.{column}")
    conn.close()
    return found


def wrong(here, *, deep: bool = True) -> list[tuple[str, str]]:
    """Returns the checks of verify that fail."""
    checks = verify(here.at.conn, here.at.broker, here.folder_as_run, deep=deep)
    return [(check.name, check.detail) for check in checks if not check.ok]


def detail_of(here, name: str) -> str:
    """Returns the detail of verify's check of this name."""
    (found,) = [c for c in verify(here.at.conn, here.at.broker, here.folder_as_run, deep=False) if c.name == name]
    return found.detail
