"""Reads and writes the ledger for a plan, all under the pipeline's row lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.planning.decisions import NO_PACE, Call, Pace, Unfinished
from lockstep.core.states import BatchState, Lane
from lockstep.ledger.changes.forgotten import locked, refuse_forgotten
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import as_type, every, maybe, one
from lockstep.ledger.version import require_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Limits
    from lockstep.core.planning.decisions import Caller

Q = queries("lockstep.ledger.batch", "plan")
LEASE_SECONDS = 20
HAND_OVER_SECONDS = 600
DOUBLINGS = 6


def lock_pipeline(cur: cursor, pipeline: str, *, even_forgotten: bool = False) -> bool:
    """Takes the pipeline's row lock and returns whether it is paused. Writes the row at the very first plan.

    Refuses a pipeline that was forgotten, and a former name.
    """
    row = locked(cur, pipeline)
    require_version(row.ledger_version)
    if not even_forgotten:
        refuse_forgotten(cur, pipeline)
    return bool(row.paused)


def batch_of_key(cur: cursor, pipeline: str, key: str | None) -> Call | None:
    """Returns the batch that was planned under the caller's key, or None."""
    cur.execute(Q["called_batch"], {"pipeline": pipeline, "key": key})
    row = maybe(cur)
    return as_type(Call, row, state=BatchState) if row else None


def unfinished_batches(cur: cursor, pipeline: str, key: str | None) -> list[Unfinished]:
    """Returns the planned batches of every lane that are not closed."""
    cur.execute(Q["unfinished"], {"pipeline": pipeline, "key": key})
    return [_unfinished(cur, row) for row in every(cur)]


def _unfinished(cur: cursor, row: Any) -> Unfinished:
    rows = uncommitted(cur, row.batch_id)
    return Unfinished(
        batch_id=row.batch_id,
        owner=row.owner,
        lease_is_live=row.lease_is_live,
        lease_until=row.lease_until,
        is_callers=row.is_callers,
        ranges=stream_ranges(rows),
        logs=tuple(dict.fromkeys((r.cluster_id, r.topic, r.topic_id) for r in rows)),
        lane=Lane(row.lane),
        request_id=row.request_id,
        is_preview=row.preview,
    )


def uncommitted(cur: cursor, batch_id: int) -> list[Any]:
    """Returns the ranges of a batch without a commit row, with the log that they were planned on."""
    cur.execute(Q["uncommitted_ranges"], {"batch_id": batch_id})
    return every(cur)


def planned_ranges(cur: cursor, batch_id: int) -> tuple[OffsetRange, ...]:
    """Returns all ranges of a batch, ordered by topic and partition. They never change."""
    cur.execute(Q["planned_ranges"], {"batch_id": batch_id})
    return tuple(sorted(item.offsets for item in stream_ranges(every(cur))))


def insert_live_batch(cur: cursor, pipeline: str, caller: Caller, ranges: Sequence[StreamRange]) -> int | None:
    """Writes the batch, its ranges and its claims. Returns None if an offset is taken: the caller rolls back."""
    batch_id = insert_batch(cur, pipeline, caller, ranges)
    cur.execute(Q["claim_ranges"], {"batch_id": batch_id})
    return batch_id if cur.rowcount == len(ranges) and found_as_expected(cur, batch_id) else None


def insert_batch(
    cur: cursor,
    pipeline: str,
    caller: Caller,
    ranges: Sequence[StreamRange],
    lane: Lane = Lane.LIVE,
    request_id: int | None = None,
) -> int:
    """Writes a batch and its ranges, held by the caller. Its claims come next."""
    cur.execute(
        Q["insert_batch"], {"pipeline": pipeline, "lane": lane, "request_id": request_id, "owner": caller.owner}
    )
    batch_id: int = one(cur).batch_id
    take_lease(cur, batch_id, caller)
    cur.execute(Q["insert_ranges"], {"batch_id": batch_id} | range_arrays(ranges))
    return batch_id


def found_as_expected(cur: cursor, batch_id: int) -> bool:
    """Checks, in a statement of its own (T4), that each claim lies over what it expects and nothing else."""
    cur.execute(Q["surprised_claims"], {"batch_id": batch_id})
    return not every(cur)


def insert_call(cur: cursor, pipeline: str, key: str, batch_id: int) -> None:
    """Binds the key to this batch."""
    cur.execute(Q["insert_call"], {"pipeline": pipeline, "key": key, "batch_id": batch_id})


def take_lease(cur: cursor, batch_id: int, caller: Caller) -> None:
    """Gives the caller the batch's lease until it opens an attempt. Another process gets a longer one (T2)."""
    lease = HAND_OVER_SECONDS if caller.hands_over else LEASE_SECONDS
    facts = {"batch_id": batch_id, "owner": caller.owner, "lease": lease, "doublings": caller.hands_over * DOUBLINGS}
    cur.execute(Q["take_lease"], facts)


def recent_pace(cur: cursor, pipeline: str, limits: Limits) -> Pace:
    """Returns the pace of the last few committed batches if the limits depend on it.

    The rate is the best among them, so that one tiny batch does not slow the next.
    """
    if not limits.go_by_pace:
        return NO_PACE
    cur.execute(Q["recent_pace"], {"pipeline": pipeline})
    rows = every(cur)
    rates = [float(row.span) / row.seconds for row in rows if row.seconds]
    span = sum(int(row.span) for row in rows)
    size = sum(int(row.bytes) for row in rows)
    return Pace(offsets_per_second=max(rates, default=None), bytes_per_offset=size / span if span else None)


def data_failures(cur: cursor, batch_id: int | None, definition_hash: str) -> tuple[int, str | None]:
    """Counts the batch's failures by data or code under this definition, and returns the last error."""
    cur.execute(Q["data_failures"], {"batch_id": batch_id, "definition_hash": definition_hash})
    row = one(cur)
    return row.times, row.error


def last_documents(cur: cursor, pipeline: str, batch_id: int | None) -> list[dict[str, Any]]:
    """Returns the definitions that bind this plan: the last commit's, and the unfinished batch's newest attempt's."""
    cur.execute(Q["last_definition"], {"pipeline": pipeline})
    rows = every(cur)
    cur.execute(Q["batch_definition"], {"batch_id": batch_id})
    return [row.document for row in [*rows, *every(cur)]]


def pause_reason(cur: cursor, pipeline: str) -> str:
    """Returns who paused the pipeline, and why."""
    cur.execute(Q["pause_reason"], {"pipeline": pipeline})
    return pause_words(maybe(cur))


def pause_words(row: Any | None) -> str:
    """Returns a pause in words. `row` has who paused, and why, if a decision says it."""
    return f"paused by {row.who}: {row.why}" if row else "paused"


def stream_ranges(rows: Sequence[Any]) -> tuple[StreamRange, ...]:
    """Converts rows of (stream_id, topic, partition, from_offset, until_offset) to values."""
    return tuple(
        StreamRange(
            row.stream_id, OffsetRange(TopicPartition(row.topic, row.partition), row.from_offset, row.until_offset)
        )
        for row in rows
    )


def range_arrays(ranges: Sequence[StreamRange]) -> dict[str, list[int]]:
    """Converts ranges to three arrays, for one statement."""
    return {
        "streams": [r.stream_id for r in ranges],
        "froms": [r.offsets.from_offset for r in ranges],
        "untils": [r.offsets.until_offset for r in ranges],
    }
