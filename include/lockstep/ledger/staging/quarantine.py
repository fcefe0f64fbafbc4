"""Turns staged records that break an expectation into rejects, before any of their rows is published."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.records import RAW_COLUMNS, RAW_NAMES
from lockstep.core.staging import COPY_SIZE, STAGING_SCHEMA
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name, typed_columns
from lockstep.ledger.rows import every
from lockstep.ledger.staging import digests
from lockstep.ledger.staging.staged import staging

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.staging import AttemptId, HiddenRows

Q = queries("lockstep.ledger.staging", "quarantine")


@dataclass(frozen=True, slots=True)
class Aside:
    """The records of a stream that were put aside: their number, their staged rows, and the digests of both sides."""

    records: int
    rows: int
    rows_digest: int
    rejects_digest: int


def create_raw(cur: cursor, attempt: AttemptId, *, of_tasks: bool) -> None:
    """Creates the table for the bytes of records, which their rows do not keep.

    A transform's source fills it. With `of_tasks`, tasks do that copy rows behind a view.
    """
    cur.execute(sql.SQL(Q["create_raw"]).format(table=_raw(attempt), columns=typed_columns(RAW_COLUMNS)))
    if of_tasks:
        cur.execute(sql.SQL(Q["let_tasks_keep"]).format(table=_raw(attempt)))


def copy_raw(cur: cursor, attempt: AttemptId, rows: BinaryIO) -> None:
    """Copies bytes of records, in COPY's binary format, into the attempt's table for them."""
    columns = sql.SQL(", ").join(map(sql.Identifier, RAW_NAMES))
    cur.copy_expert(sql.SQL(Q["copy_raw"]).format(table=_raw(attempt), columns=columns), rows, COPY_SIZE)


def put_aside(
    cur: cursor, attempt: AttemptId, violators: Mapping[tuple[int, int], str], *, beside: bool
) -> dict[int, Aside]:
    """Turns records into rejects in the staging table, given as (stream, offset) to reason.

    Returns the counts by stream.

    `beside` says that their bytes are in a table of their own, because a transform has dropped them.
    """
    raw = _beside(attempt) if beside else sql.Identifier("gone")
    columns = digests.digest_columns(cur, f"{STAGING_SCHEMA}.{attempt.table}")
    row = digests.row_digest(columns, 0, marks_deletions=True)
    return _aside(cur, attempt, violators, sql.SQL(Q["put_aside"]), raw=raw, row=row)


def put_aside_hidden(
    cur: cursor, attempt: AttemptId, rows: HiddenRows, violators: Mapping[tuple[int, int], str]
) -> dict[int, Aside]:
    """Deletes the hidden rows of these records, and keeps each record as a reject in the staging table.

    Lowers the counts that tasks have kept of their ranges. Returns the counts by stream. Call it behind the fence, as
    the tasks' role.
    """
    cur.execute(
        "set local enable_seqscan = off; set local row_security = off"
    )  # found by the key, with no row left out
    row = digests.row_digest(rows.digested, 0, marks_deletions=False)
    statement = sql.SQL(Q["put_aside_hidden"])
    return _aside(cur, attempt, violators, statement, raw=_beside(attempt), row=row, rows=table_name(rows.table))


def _aside(
    cur: cursor, attempt: AttemptId, violators: Mapping[tuple[int, int], str], statement: sql.SQL, **parts: Composable
) -> dict[int, Aside]:
    coordinates = {
        "streams": [stream for stream, _ in violators],
        "offsets": [offset for _, offset in violators],
        "reasons": list(violators.values()),
    }
    written = statement.format(table=staging(attempt), reject=digests.staged_reject(), **parts)
    cur.execute(written, coordinates | asdict(attempt))
    return {
        row.stream_id: Aside(row.records, row.rows, int(row.rows_digest), int(row.rejects_digest)) for row in every(cur)
    }


def _beside(attempt: AttemptId) -> Composable:
    return sql.SQL(Q["bytes_beside"]).format(beside=_raw(attempt))


def _raw(attempt: AttemptId) -> sql.Identifier:
    return sql.Identifier(STAGING_SCHEMA, attempt.raw_table)
