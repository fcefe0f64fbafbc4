"""Turns staged records that break an expectation into rejects, before any of their rows is published."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.records import RAW_COLUMNS
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import typed_columns
from lockstep.ledger.rows import every
from lockstep.ledger.staging import digests
from lockstep.ledger.staging.staged import staging

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.staging", "quarantine")


@dataclass(frozen=True, slots=True)
class Aside:
    """The records of a stream that were put aside: their number, their staged rows, and the digests of both sides."""

    records: int
    rows: int
    rows_digest: int
    rejects_digest: int


def create_raw(cur: cursor, attempt: AttemptId) -> None:
    """Creates the table in which a transform's source keeps its records' bytes."""
    cur.execute(sql.SQL(Q["create_raw"]).format(table=_raw(attempt), columns=typed_columns(RAW_COLUMNS)))


def put_aside(
    cur: cursor, attempt: AttemptId, violators: Mapping[tuple[int, int], str], *, beside: bool
) -> dict[int, Aside]:
    """Turns records into rejects in the staging table, given as (stream, offset) to reason.

    Returns the counts by stream.

    `beside` says that their bytes are in a table of their own, because a transform has dropped them.
    """
    raw = sql.SQL(Q["bytes_beside"]).format(beside=_raw(attempt)) if beside else sql.Identifier("gone")
    coordinates = {
        "streams": [stream for stream, _ in violators],
        "offsets": [offset for _, offset in violators],
        "reasons": list(violators.values()),
    }
    columns = digests.digest_columns(cur, f"{STAGING_SCHEMA}.{attempt.table}")
    parts = {"row": digests.row_digest(columns, 0, marks_deletions=True), "reject": digests.staged_reject()}
    cur.execute(sql.SQL(Q["put_aside"]).format(table=staging(attempt), raw=raw, **parts), coordinates | asdict(attempt))
    return {
        row.stream_id: Aside(row.records, row.rows, int(row.rows_digest), int(row.rejects_digest)) for row in every(cur)
    }


def _raw(attempt: AttemptId) -> sql.Identifier:
    return sql.Identifier(STAGING_SCHEMA, attempt.raw_table)
