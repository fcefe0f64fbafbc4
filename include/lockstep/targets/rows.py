"""Selects the rows to publish: those of an attempt's winners, wherever they are stored."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.staging import STAGING_SCHEMA
from lockstep.ledger.batch.ranges import rows_of
from lockstep.ledger.queries import queries
from lockstep.ledger.staging.staged import staging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.staging import AttemptId

Q = queries("lockstep.targets", "rows")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an attempt for a target, `count` of them.

    `source` stands in a FROM clause, `table` has their columns. `of_one_stream` is True if they are known to be of one
    stream.
    """

    attempt: AttemptId
    count: int
    table: str
    source: Composable
    of_one_stream: bool = False

    @property
    def batch_id(self) -> int:
        """Returns the batch that will own the rows."""
        return self.attempt.batch_id


def range_rows(attempt: AttemptId, stream_id: int, count: int) -> Rows:
    """Returns the rows that a task has copied of one range, without rejects."""
    table = rows_of(stream_id)
    return Rows(attempt, count, ".".join(table.strings), sql.SQL(Q["of_range"]).format(table=table), of_one_stream=True)


def staged_rows(attempt: AttemptId, count: int, place: int = 0) -> Rows:
    """Returns the rows that the attempt's winners have staged for the target at this place, without rejects."""
    named = {"batch_id": sql.Literal(attempt.batch_id), "token": sql.Literal(attempt.token)}
    source = sql.SQL(Q["of_winners"]).format(table=staging(attempt, place), **named)
    return Rows(attempt, count, f"{STAGING_SCHEMA}.{attempt.beside(place)}", source)


@contextmanager
def found_by_index(cur: cursor) -> Iterator[None]:
    """Leads the block's statements to an index. Postgres estimates neither ranges of offsets nor new tables well."""
    cur.execute("set local enable_seqscan = off")
    yield
    cur.execute("set local enable_seqscan = on")
