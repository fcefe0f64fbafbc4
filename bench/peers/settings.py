"""Sets Postgres's settings: the same for all sessions, whatever their login, and named on the page."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
from psycopg2 import sql

from lockstep.adapters.postgres import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import connection

    from peers.contender import Place

# The settings that a load's speed or its safety depends on.
NAMES = (
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "wal_level",
    "wal_compression",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "jit",
    "work_mem",
    "maintenance_work_mem",
    "max_parallel_workers_per_gather",
    "autovacuum",
)
SHARED = {"jit": "off"}  # Lockstep's sessions switch it off for themselves


def share(superuser_dsn: str) -> None:
    """Gives all later sessions of this database the settings of Lockstep's sessions."""
    with closing(psycopg2.connect(superuser_dsn)) as conn, conn, conn.cursor() as cur:
        for name, value in SHARED.items():
            database = sql.Identifier(conn.info.dbname)
            cur.execute(
                sql.SQL("alter database {} set {} = {}").format(database, sql.Identifier(name), sql.Literal(value))
            )


def settings(place: Place) -> dict[str, str]:
    """Returns the settings by name. Refuses to run if Lockstep's sessions have others than the peers' sessions."""
    with closing(connect(place.dsn)) as ours, closing(psycopg2.connect(place.superuser_dsn)) as theirs:
        found, others = _shown(ours), _shown(theirs)
    if odd := [f"{name} is {found[name]} and {others[name]}" for name in NAMES if found[name] != others[name]]:
        raise SystemExit(f"Lockstep's and the peers' sessions differ: {', '.join(odd)}")
    return found  # type: ignore[return-value]


def _shown(conn: connection) -> Mapping[str, str]:
    with conn, conn.cursor() as cur:
        cur.execute("select name, current_setting(name) from unnest(%s) as name", (list(NAMES),))
        return dict(cur.fetchall())
