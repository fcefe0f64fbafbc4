"""Opens a staging task's session: a connection of its own, one transaction, rows by COPY in its binary format."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg2
import pyarrow as pa
from psycopg2 import errors, sql
from psycopg2.extensions import parse_dsn

from lockstep.adapters.connection.opened import open_stager
from lockstep.adapters.postgres_words import without_secrets
from lockstep.core.staging import COPY_SIZE
from lockstep.engine.sinks.copy_binary import copy_binary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from psycopg2.extensions import cursor


@contextmanager
def staging_session(dsn: str) -> Iterator[Any]:
    """Commits when the block ends. The session is the stager's.

    Raises `ConnectionError` if Postgres is away, has no room, or is a standby now.
    """
    try:
        with closing(open_stager(dsn)) as conn, conn, conn.cursor() as cur:
            yield cur
    except errors.ProgramLimitExceeded:
        raise  # a row is too large for a page: the server is there
    except (psycopg2.OperationalError, psycopg2.InterfaceError, errors.ReadOnlySqlTransaction) as error:
        raise ConnectionError(str(error)) from error


def ways_to(dsn: str, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Logs in once for each number. Yields the address with the reason if it fails, without a password, and else a null."""
    for batch in numbers:
        whys = [_why_not(dsn) for _ in range(batch.num_rows)]
        yield pa.RecordBatch.from_pydict({"why": pa.array(whys, pa.string())})


def _why_not(dsn: str) -> str | None:
    try:
        open_stager(dsn).close()
    except psycopg2.Error as error:  # it cannot log in, or may not stage
        parts = parse_dsn(dsn)
        address = f"{parts.get('host', 'localhost')}:{parts.get('port', '5432')}"
        return f"{parts.get('user')} at {address}: {without_secrets(error, parts)}"
    return None


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
