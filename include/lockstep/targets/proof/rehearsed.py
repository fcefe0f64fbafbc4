"""Reads what an attempt has staged and what stands in its targets, for a rehearsal."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.adapters.postgres import TARGETS_ROLE
from lockstep.core.pipeline.targets import Windows, row_key
from lockstep.core.records import TARGET_COLUMNS
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name, typed_columns
from lockstep.ledger.rows import every, maybe
from lockstep.ledger.staging.staged import staging
from lockstep.targets.windows import read_added_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Target
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.targets.proof", "rehearsed")


def staged_for_target(cur: cursor, attempt: AttemptId, place: int) -> list[dict[str, Any]]:
    """Returns the staged rows, deletions and rejects for the target at this place, in the log's order."""
    cur.execute(sql.SQL(Q["staged"]).format(table=staging(attempt, place)), asdict(attempt))
    return _by_name(cur)


def in_target(cur: cursor, target: Target) -> list[dict[str, Any]]:
    """Returns the target's rows. Windows count as shown: a rehearsal does not wait until their time is over."""
    if isinstance(target, Windows):
        read_added_up(cur, target)
        return _by_name(cur)
    cur.execute(sql.SQL(Q["in_target"]).format(target=table_name(target.table)))
    return _by_name(cur)


def verdict(cur: cursor, attempt: AttemptId) -> dict[str, Any] | None:
    """Returns the verdict on the attempt, or None if it ended before."""
    cur.execute(Q["verdict"], asdict(attempt))
    row = maybe(cur)
    return row.result if row else None


def make_schema(cur: cursor, target: Target) -> None:
    """Makes the schema of a table that stands for another store's."""
    schema, _ = table_name(target.table).strings
    cur.execute(sql.SQL(Q["make_schema"]).format(schema=sql.Identifier(schema), owner=sql.Identifier(TARGETS_ROLE)))


def table_of(cur: cursor, target: Target, columns: Sequence[Column]) -> str:
    """Returns the statement for a table of these columns, with a key as the target needs it."""
    key = row_key(target)
    typed = [(column.name, column.postgres_type) for column in columns]
    statement = sql.SQL(Q["make_table"]).format(
        table=table_name(target.table),
        columns=typed_columns([*typed, *TARGET_COLUMNS]),
        key=sql.SQL(", ").join(map(sql.Identifier, key)),
    )
    return str(statement.as_string(cur))


def _by_name(cur: cursor) -> list[dict[str, Any]]:
    """Returns rows by column. Rows of named tuples would rename columns that begin with an underscore."""
    names = [column.name for column in cur.description or ()]
    return [dict(zip(names, map(_plain, row), strict=True)) for row in every(cur)]


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value
