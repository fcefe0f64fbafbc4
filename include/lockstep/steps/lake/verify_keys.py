"""Compares an upserted lake table with the account that its commits have kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.lake.keyed import HeldRows, add_held
from lockstep.core.proof.verification import PromiseCheck, Wrong
from lockstep.ledger.lake import moves
from lockstep.ledger.lake.keyed import expected_held, named_streams, owners_of_segments

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.lake.iceberg import Iceberg

AS_ACCOUNTED = "the lake holds the rows that commits have left"
NO_ROWS = (0, 0)


def add_batch(held: HeldRows, table: LakeTable, rows: Any) -> None:
    """Adds rows that were read from the table to what it holds."""
    from lockstep.adapters.iceberg.keyed_values import held_rows  # noqa: PLC0415 - few pipelines have a lake table

    add_held(held, held_rows(rows, table.ids))


def as_accounted(cur: cursor, table: Iceberg, uuid: str, there: HeldRows) -> PromiseCheck:
    """Compares the rows of each batch and stream with the account, by number and by sum of their hashes.

    A value that changed, a key that is lost and one that came back are each a difference.
    """
    wrong, expected = Wrong(), expected_held(cur, str(table), uuid)
    names = named_streams(cur, {stream for _, stream in there.keys() | expected.keys()})
    who = moves.other_movers(cur, table)
    every = sorted(there.keys() | expected.keys())
    differ = [key for key in every if there.get(key, NO_ROWS) != expected.get(key, NO_ROWS)]
    owned = owners_of_segments(cur, differ)  # a replay of another batch brings nothing
    for key in differ:
        found, told = there.get(key, NO_ROWS), expected.get(key, NO_ROWS)
        batch, stream = key
        rows = f"{found[0]} rows are there, {told[0]} were left by commits"
        said = "other values than were committed, in as many rows" if found[0] == told[0] else rows
        where = f"{names.get(stream, f'stream {stream}')} of batch {batch}"
        wrong.add(f"{where}: {said}; moved last {who}", batch=batch if key in owned else None)
    compared = f"{sum(rows for rows, _ in there.values())} rows by their hashes"
    return wrong.check(AS_ACCOUNTED, "contents", str(table), told=compared)
