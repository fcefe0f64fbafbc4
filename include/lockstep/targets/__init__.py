"""Targets: how the winners' staged rows become results, inside the commit's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.definition import Accumulate, Append, Upsert
from lockstep.targets import accumulate, append, upsert

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.definition import Target
    from lockstep.targets.rows import Rows


def publish(cur: cursor, target: Target, rows: Rows) -> dict[str, int]:
    """Publishes the rows; returns what the target did, counted apart from records."""
    match target:
        case Append():
            return append.publish(cur, target, rows)
        case Upsert():
            return upsert.publish(cur, target, rows)
        case Accumulate():
            return accumulate.publish(cur, target, rows)


def withdraw(cur: cursor, target: Target, batch_id: int, stream_id: int | None = None) -> dict[str, int]:
    """Takes out what the segments that the batch replaces, of one stream where it is named, have left in the target."""
    match target:
        case Append():
            return append.withdraw(cur, target, batch_id, stream_id)
        case Upsert():
            return upsert.withdraw(cur, target, batch_id, stream_id)
        case Accumulate():
            return accumulate.withdraw(cur, target, batch_id)


FILL_MEANS = "records that were never read are read now, each as if it had come in its time"


def replay_means(target: Target) -> str:
    """What a replay does to the rows already written, said before it is done."""
    match target:
        case Append():
            return append.REPLAY
        case Upsert():
            return upsert.REPLAY
        case Accumulate():
            return accumulate.REPLAY
