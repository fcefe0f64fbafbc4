"""Creates the staging tables of an attempt, one for each target, and counts their rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.pipeline.violations import reason_told
from lockstep.core.records import RESERVED_COLUMNS
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import typed_columns
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.staging", "staged")
REASONS_TOLD = 3


def create_staging(cur: cursor, attempt: AttemptId, place: int, columns: Sequence[Column]) -> None:
    """Creates a target's staging table, in the transaction that opens the attempt.

    A table that is made later could outlive `reap` (T3).
    """
    typed = typed_columns([*RESERVED_COLUMNS, *((column.name, column.postgres_type) for column in columns)])
    cur.execute(sql.SQL(Q["create_staging"]).format(table=staging(attempt, place), columns=typed))


def analyze(cur: cursor, columns: sql.Composable) -> None:
    """Analyzes a new table, or columns of it, so that Postgres plans its queries for its size."""
    cur.execute(sql.SQL(Q["analyze"]).format(columns=columns))


def staged_totals(cur: cursor, attempt: AttemptId) -> dict[int, Any]:
    """Counts the winners' staged rows per stream. The database counts them, independent of the tasks' reports."""
    tables = _together(attempt, staged_places(cur, attempt))
    cur.execute(sql.SQL(Q["staged_totals"]).format(table=tables), asdict(attempt))
    return {row.stream_id: row for row in every(cur)}


def staged_places(cur: cursor, attempt: AttemptId) -> range:
    """Returns the places of the targets that the attempt was staged for."""
    cur.execute(Q["staging_tables"], asdict(attempt))
    return range(one(cur).tables)


def staged_records(
    cur: cursor, attempt: AttemptId, tasks: Sequence[int], places: Sequence[int] = (0,)
) -> dict[int, int]:
    """Counts the records with rows of these tasks, per stream. Omits tombstones, which no transform sees.

    A record with rows for several of the targets at these places counts once.
    """
    cur.execute(sql.SQL(Q["staged_records"]).format(table=_together(attempt, places)), {"tasks": list(tasks)})
    return {row.stream_id: row.written for row in every(cur)}


def staged_reasons(cur: cursor, attempt: AttemptId) -> list[str]:
    """Returns the most frequent reasons of the winners' rejects, each with its number and its first place."""
    winners = sql.SQL(Q["of_winners"]).format(table=staging(attempt))
    return reasons_within(cur, sql.SQL("({})").format(winners), asdict(attempt))


def reasons_within(cur: cursor, rows: sql.Composable, facts: Mapping[str, Any]) -> list[str]:
    """Returns the most frequent reasons of the rejects among these rows. `facts` are what the rows' query names."""
    cur.execute(sql.SQL(Q["reasons"]).format(rows=rows), {**facts, "most": REASONS_TOLD})
    return [reason_told(row.count, row.first, row.reason) for row in every(cur)]


def staging(attempt: AttemptId, place: int = 0) -> sql.Identifier:
    """Returns the attempt's staging table for the target at this place, quoted."""
    return sql.Identifier(STAGING_SCHEMA, attempt.beside(place))


def _together(attempt: AttemptId, places: Sequence[int]) -> sql.Composable:
    """Returns the staging tables of these places as one, for a FROM clause."""
    if len(places) == 1:
        return staging(attempt, places[0])
    each = [sql.SQL(Q["staged_in"]).format(table=staging(attempt, place)) for place in places]
    return sql.SQL("({})").format(sql.SQL(" union all ").join(each))
