"""Creates databases beside the ledger's."""

from __future__ import annotations

from psycopg2 import sql

from lockstep.adapters.postgres import connect


def ensure_database(dsn: str, name: str, **settings: str) -> None:
    """Creates a database of this name on the same server, owned by the login. Keeps the contents of an existing one."""
    conn = connect(dsn)
    conn.autocommit = True
    try:
        with conn.cursor() as cur:
            cur.execute("select 1 from pg_database where datname = %s", (name,))
            if cur.fetchone() is None:
                cur.execute(sql.SQL("create database {name}").format(name=sql.Identifier(name)))
            for setting, value in settings.items():
                alter = sql.SQL("alter database {name} set {setting} to {value}")
                cur.execute(
                    alter.format(name=sql.Identifier(name), setting=sql.Identifier(setting), value=sql.Literal(value))
                )
    finally:
        conn.close()
