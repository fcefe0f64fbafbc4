"""Keeps records with an erased key out of the results. They are read, and counted as filtered."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.proof.accounting import suppressed
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.ledger.changes.erasures import key_expression
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every
from lockstep.ledger.staging import digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.staging", "suppression")
TaskAndStream = tuple[int, int]  # task and stream


@dataclass(slots=True)
class Dropped:
    """Staged rows that were dropped: by target in the definition's order, and records with their deletions apart."""

    rows: list[int]
    records: set[tuple[int, bool]] = field(default_factory=set)

    def count(self, *, deletions_only: bool) -> int:
        """Returns how many records were dropped, or only how many of them were deletions."""
        return sum(deleted or not deletions_only for _, deleted in self.records)


def erased_columns(cur: cursor, pipeline: str) -> list[Any]:
    """Returns the columns in which keys of the pipeline were erased. Almost every pipeline has none."""
    cur.execute(Q["erased_columns"], {"pipeline": pipeline})
    return every(cur)


def facts_of(column: Any) -> dict[str, Any]:
    """Returns the parameters of a statement about one column's erasures."""
    return {"pipeline": column.pipeline, "column": column.column_name, "as_uuid": column.as_uuid}


def without_erased(
    cur: cursor,
    name: str,
    attempt: AttemptId,
    lines: Sequence[ManifestLine],
    places: Sequence[int],
    *,
    is_counted_here: bool,
) -> Sequence[ManifestLine]:
    """Drops rows of an erased key from staging. Their records count as filtered from here on.

    If records are counted here, lines count only deletions as written.
    """
    gone = suppress(cur, name, attempt, places)
    return [
        suppressed(line, its.rows, its.count(deletions_only=is_counted_here))
        if (its := gone.get((line.task, line.stream_id)))
        else line
        for line in lines
    ]


def suppress(cur: cursor, pipeline: str, attempt: AttemptId, places: Sequence[int]) -> dict[TaskAndStream, Dropped]:
    """Drops staged rows that hold an erased key, and empties such rejects.

    Returns the dropped rows by (task, stream).
    """
    columns = erased_columns(cur, pipeline)
    gone: dict[TaskAndStream, Dropped] = defaultdict(lambda: Dropped([0] * len(places)))
    if not columns:
        return gone
    for place in places:
        table = f"{STAGING_SCHEMA}.{attempt.beside(place)}"
        for row in _drop(cur, table, columns):
            its = gone[row.task, row.stream_id]
            its.rows[place] += 1
            its.records.add((row.offset, row.deleted))
    _empty(cur, pipeline, _identifier(f"{STAGING_SCHEMA}.{attempt.table}"))
    raw = f"{STAGING_SCHEMA}.{attempt.raw_table}"
    if gone and _exists(cur, raw):
        records = sorted({(stream, offset) for (_, stream), its in gone.items() for offset, _ in its.records})
        facts = {"streams": [stream for stream, _ in records], "offsets": [offset for _, offset in records]}
        cur.execute(sql.SQL(Q["drop_bytes"]).format(table=_identifier(raw)), facts)
    return gone


def suppress_range(cur: cursor, pipeline: str, columns: Sequence[Any], table: str) -> Dropped:
    """Drops rows that hold an erased key from the table of one range, before its task publishes them.

    Empties such rejects.
    """
    its = Dropped([0])
    for row in _drop(cur, table, columns):
        its.rows[0] += 1
        its.records.add((row.offset, row.deleted))
    # A record that became several rows counts as written while one of them is left.
    cur.execute(
        sql.SQL(Q["rows_left"]).format(table=_identifier(table)), {"offsets": [offset for offset, _ in its.records]}
    )
    left = {row.offset for row in every(cur)}
    its.records = {record for record in its.records if record[0] not in left}
    _empty(cur, pipeline, _identifier(table))
    return its


def erased_places(
    cur: cursor, columns: Iterable[Any], stream_id: int, offsets: Sequence[int], keys: Mapping[str, Sequence[Any]]
) -> set[int]:
    """Returns the places, from 0, of one stream's records that hold an erased key. `keys` are by column."""
    found: set[int] = set()
    for column in columns:
        if column.column_name in keys:
            values = [None if key is None else str(key) for key in keys[column.column_name]]
            facts = {"keys": values, "offsets": list(offsets), "stream_id": stream_id}
            cur.execute(Q["erased_keys"], facts | facts_of(column))
            found |= {row.place - 1 for row in every(cur)}
    return found


def _drop(cur: cursor, table: str, columns: Iterable[Any]) -> list[Any]:
    dropped: list[Any] = []
    known = {name for name, _ in digests.digest_columns(cur, table)}
    for column in columns:
        if column.column_name in known:
            key = key_expression(column.column_name, as_uuid=column.as_uuid)
            cur.execute(sql.SQL(Q["drop_erased"]).format(table=_identifier(table), key=key), facts_of(column))
            dropped += every(cur)
    return dropped


def _empty(cur: cursor, pipeline: str, table: Composable) -> None:
    cur.execute(sql.SQL(Q["empty_rejects"]).format(table=table), {"pipeline": pipeline})


def _exists(cur: cursor, table: str) -> bool:
    cur.execute(Q["exists"], {"table": table})
    return bool(every(cur)[0].does)


def _identifier(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split("."))
