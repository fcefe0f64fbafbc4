"""Opens a staging task's session: a connection of its own, one transaction, rows by COPY in its binary format."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2 import errors, sql

from lockstep.adapters.connection.opened import open_stager
from lockstep.core.staging import COPY_SIZE
from lockstep.engine.sinks.copy_binary import copy_binary

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from psycopg2.extensions import cursor


@contextmanager
def staging_session(dsn: str) -> Iterator[Any]:
    """Commits when the block ends. The session is the stager's.

    Raises `ConnectionError` if Postgres is away, has no room, or is a standby now.
    """
    try:
        with closing(open_stager(dsn)) as conn, conn, conn.cursor() as cur:
            yield cur
    except (psycopg2.OperationalError, psycopg2.InterfaceError, errors.ReadOnlySqlTransaction) as error:
        raise ConnectionError(str(error)) from error


def copy_rows(cur: cursor, schema: str, table: str, rows: pa.RecordBatch, so_far: int = 0) -> None:
    """Copies rows into a table whose columns have exactly their types.

    The statement begins with how many rows there are with those `so_far`, for whoever looks at the server's sessions.
    """
    columns = sql.SQL(", ").join(map(sql.Identifier, rows.schema.names))
    statement = sql.SQL("/* {so_far} rows */ copy {table} ({columns}) from stdin with (format binary)").format(
        so_far=sql.Literal(so_far + rows.num_rows), table=sql.Identifier(schema, table), columns=columns
    )
    for piece in copy_binary(rows):
        cur.copy_expert(statement, piece, COPY_SIZE)
