"""Keeps the rows that a pipeline sends without a table of its author's, and refuses to take them back (E20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.errors import BadData, BadDefinition
from lockstep.core.pipeline.targets import ORIGIN, Send
from lockstep.core.records import TARGET_COLUMNS
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name, typed_columns
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline

Q = queries("lockstep.ledger.feed", "sends")


def tables_of_sends(cur: cursor, pipeline: Pipeline, columns: Sequence[Sequence[Column]]) -> str:
    """Returns the DDL of the tables behind a pipeline's sends. It stands before what target.sql makes.

    `columns` are those that reach each target. Raises `BadDefinition` for a key that is none of them.
    """
    statements = []
    for target, its in zip(pipeline.targets, columns, strict=True):
        if not isinstance(target, Send):
            continue
        typed = [(column.name, column.postgres_type) for column in its]
        missing = [name for name in target.key or () if name not in dict(typed)]
        if missing:
            raise BadDefinition(
                f"{pipeline.name}: target.key: the rows for {target.topic.name} have no column {missing[0]}; there are: "
                f"{', '.join(dict(typed))}",
                next_command=f"change the definition, then lockstep migrate {pipeline.name}",
            )
        statement = sql.SQL(Q["send_table"]).format(
            table=table_name(target.table),
            columns=typed_columns([*typed, *TARGET_COLUMNS]),
            key=sql.SQL(", ").join(map(sql.Identifier, ORIGIN)),
        )
        statements.append(f"{statement.as_string(cur)};\n")
    return "".join(statements)


def require_unsaid_nothing(cur: cursor, pipeline: Pipeline) -> None:
    """Refuses a replay that would change, remove or send again what was sent. Raises `BadData` with the counts (E20)."""
    sends = {target.table: target.topic.name for target in pipeline.targets if isinstance(target, Send)}
    if not sends:
        return
    cur.execute(Q["taken_back"])
    found = maybe(cur)
    if found is not None:
        topic = sends[found.target]
        raise BadData(
            f"{pipeline.name}: batch {found.batch_id}: {topic} has these records already, and what was sent stays: "
            f"{found.changed} rows would be others, {found.gone} would be gone, {found.again} would be sent again; "
            "a table with a feed tells what a replay changes",
            next_command=f"lockstep abandon {found.batch_id} --reason ...",
        )


def trimmed_batches(cur: cursor, table: str, stream_id: int) -> set[int]:
    """Returns the batches of a stream whose sent rows are trimmed, so that their records cannot be compared."""
    cur.execute(Q["trimmed_batches"], {"target": table, "stream_id": stream_id})
    return {row.batch_id for row in every(cur)}


def trimmed_segments(cur: cursor, table: str) -> str:
    """Returns in words how many segments of a target cannot be compared, because their rows are trimmed."""
    cur.execute(Q["left_out"], {"target": table})
    count = one(cur).segments
    return f"{count} segments whose sent rows are trimmed" if count else ""
