"""Publishes the winners' staged rows as results, inside the commit's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from lockstep.core.pipeline.definition import Accumulate, Append, History, Upsert, Windows
from lockstep.core.states import Lane
from lockstep.targets import accumulate, append, history, upsert, windows
from lockstep.targets.by_batch import attached

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import EventTime, Target
    from lockstep.targets.rows import Rows


def publish(cur: cursor, target: Target, rows: Rows, event_time: EventTime | None = None) -> dict[str, int]:
    """Publishes the rows. Returns what the target did, counted apart from records. Windows need an `event_time`."""
    match target:
        case History():
            return history.publish(cur, target, rows)
        case Append():
            return append.publish(cur, target, rows)
        case Upsert():
            return upsert.publish(cur, target, rows)
        case Accumulate():
            return accumulate.publish(cur, target, rows)
        case Windows():
            if event_time is None:
                raise TypeError(f"{target.table} has windows and needs an event time")
            return windows.publish(cur, target, rows, event_time)


def publish_staged(cur: cursor, target: Target, rows: Rows, event_time: EventTime | None = None) -> dict[str, int]:
    """Publishes the rows that an attempt has staged, or attaches them if the table allows it.

    Returns the same as `publish`.
    """
    if is_appended(target) and attached(cur, target.table, rows):
        return {"inserted": rows.count}
    return publish(cur, target, rows, event_time)


def is_appended(target: Target) -> TypeGuard[Append]:
    """Returns True if the rows of a target are what its records are, whatever other rows there are."""
    return isinstance(target, Append) and not isinstance(target, History)


def straight(cur: cursor, target: Target, columns: Sequence[Column]) -> tuple[str, ...]:
    """Returns the columns of rows that may be copied into the target as they come.

    Returns none if rows must wait in a table.
    """
    return append.straight_columns(cur, target, columns) if is_appended(target) else ()


def copy(cur: cursor, target: Target, names: Sequence[str], item: StreamRange, rows: BinaryIO) -> int:
    """Copies rows of the range straight into a target that accepts them. Returns their number."""
    if not is_appended(target):
        raise TypeError(f"{target.table} takes no copies")
    return append.copy_appended(cur, target, names, item, rows)


def withdraw(
    cur: cursor, target: Target, batch_id: int, stream_id: int | None = None, *, keeps: bool = False
) -> dict[str, int]:
    """Removes everything from the target that the replaced segments have left there.

    With a `stream_id` it removes only the rows of that stream. With `keeps`, `publish` takes from them what records leave
    open.
    """
    match target:
        case History():
            return history.withdraw(cur, target, batch_id, stream_id)
        case Append():
            return append.withdraw(cur, target, batch_id, stream_id)
        case Upsert():
            return upsert.withdraw(cur, target, batch_id, stream_id, keeps=keeps)
        case Accumulate():
            return accumulate.withdraw(cur, target, batch_id)
        case Windows():
            return windows.withdraw(cur, target, batch_id)


FILL_MEANS = "records that were never read are read now, each as if it had come in its time"


def replay_means(target: Target) -> str:
    """Says, before a replay is done, what it does to rows that are already written."""
    match target:
        case History():
            return history.REPLAYED_VERSIONS
        case Append():
            return append.REPLAYED_ROWS
        case Upsert():
            return upsert.REPLAYED_KEYS
        case Accumulate():
            return accumulate.REPLAYED_TOTALS
        case Windows():
            return windows.REPLAYED_WINDOWS


def request_means(targets: Sequence[Target], lane: Lane) -> str:
    """Says what a fill is, or what a replay does to written rows. Names each target if there are several."""
    if lane == Lane.FILL:
        return FILL_MEANS
    return "; ".join(f"{t.table}: {replay_means(t)}" if len(targets) > 1 else replay_means(t) for t in targets)
