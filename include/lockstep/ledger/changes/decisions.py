"""Writes a person's decisions, under the pipeline's row lock. The caller keeps the lock order (T16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2.extras import Json

from lockstep.core.errors import PositionMoved
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import StreamRange

Q = queries("lockstep.ledger.changes", "decisions")


def pipeline_of_batch(cur: cursor, batch_id: int) -> str | None:
    """Returns the pipeline of a batch, or None if the ledger has no such batch."""
    cur.execute(Q["batch_pipeline"], {"batch_id": batch_id})
    row = maybe(cur)
    return row.pipeline if row else None


def set_paused(cur: cursor, pipeline: str, *, paused: bool) -> bool:
    """Pauses or resumes the pipeline. Returns False if it was already so."""
    cur.execute(Q["set_paused"], {"pipeline": pipeline, "paused": paused})
    return cur.rowcount == 1


def claiming(cur: cursor, streams: Sequence[int], from_offset: int = 0, until_offset: int | None = None) -> list[int]:
    """Returns the unfinished batches that claim these offsets of these streams."""
    cur.execute(Q["claiming"], {"streams": list(streams), "from_offset": from_offset, "until_offset": until_offset})
    return [row.batch_id for row in every(cur)]


def streams_of_partitions(cur: cursor, pipeline: str, topic: str, partitions: Iterable[int]) -> list[int]:
    """Returns every stream of these partitions of a topic, closed ones too."""
    asked = {"pipeline": pipeline, "topic": topic, "partitions": sorted(partitions)}
    cur.execute(Q["streams_of_partitions"], asked)
    return [row.stream_id for row in every(cur)]


def claimed_until(cur: cursor, pipeline: str) -> dict[int, int]:
    """Returns, per stream, the end of the offsets that unfinished batches claim."""
    cur.execute(Q["claimed_until"], {"pipeline": pipeline})
    return {row.stream_id: row.until_offset for row in every(cur)}


def lock_batches(cur: cursor, batches: Sequence[int]) -> list[Any]:
    """Takes the batches' row locks by id and returns (batch_id, state, token), read under the locks."""
    cur.execute(Q["lock_batches"], {"batches": list(batches)})
    return every(cur)


def abandon_batches(cur: cursor, batches: Sequence[int], error: str) -> None:
    """Abandons batches and their attempts. `release_claims` frees their claims later, when the streams are locked."""
    cur.execute(Q["abandon_batches"], {"batches": list(batches)})
    cur.execute(Q["abandon_attempts"], {"batches": list(batches), "error": error})


def release_claims(cur: cursor, batches: Sequence[int]) -> None:
    """Frees the offsets that abandoned batches claim."""
    cur.execute(Q["release_abandoned"], {"batches": list(batches)})


def lock_streams(cur: cursor, streams: Sequence[int]) -> dict[int, int]:
    """Takes the streams' row locks by id and returns their positions, read under the locks."""
    cur.execute(Q["lock_streams"], {"streams": list(streams)})
    return {row.stream_id: row.position for row in every(cur)}


def coverage_within(cur: cursor, lost: StreamRange) -> list[Any]:
    """Returns the coverage that touches these offsets, in order."""
    cur.execute(Q["coverage_within"], _offsets(lost))
    return every(cur)


def insert_loss(cur: cursor, lost: StreamRange, position: int) -> None:
    """Covers the offsets as lost and moves a position below their end past them. Cuts skips that they touch."""
    cur.execute(Q["cut_skipped"], _offsets(lost))
    for row in every(cur):
        for begin, end in ((row.from_offset, lost.offsets.from_offset), (lost.offsets.until_offset, row.until_offset)):
            if begin < end:
                rest = {"stream_id": lost.stream_id, "from_offset": begin, "until_offset": end}
                cur.execute(Q["insert_skipped"], rest)
    cur.execute(Q["insert_loss"], _offsets(lost))
    if lost.offsets.until_offset > position:
        _pass_over(cur, lost, position)


def insert_skip(cur: cursor, skipped: StreamRange) -> None:
    """Covers the offsets as skipped and moves the position from their beginning to their end.

    Raises `PositionMoved` if the position is elsewhere.
    """
    cur.execute(Q["insert_skipped"], _offsets(skipped))
    _pass_over(cur, skipped, skipped.offsets.from_offset)


def record(cur: cursor, pipeline: str, kind: str, person: Person, detail: dict[str, Any] | None = None) -> int:
    """Records a decision with its person, reason and details, and returns its number."""
    known = (detail or {}) | ({"run": person.run} if person.run else {})
    values = {"pipeline": pipeline, "kind": kind, "who": person.who, "why": person.why, "detail": Json(known)}
    cur.execute(Q["insert_decision"], values)
    return int(one(cur).decision_id)


def adoption(cur: cursor, pipeline: str) -> Any | None:
    """Returns number, person and digest of the decision by which the pipeline took over from another reader, or None."""
    cur.execute(Q["adoption"], {"pipeline": pipeline})
    return maybe(cur)


def record_loss(
    cur: cursor, pipeline: str, person: Person, lost: StreamRange, position: int, abandoned: Sequence[int] = ()
) -> None:
    """Covers the offsets as lost, as `insert_loss` does, and records the decision."""
    insert_loss(cur, lost, position)
    at = lost.offsets.topic_partition
    detail = {**_offsets(lost), "topic": at.topic, "partition": at.partition, "abandoned": list(abandoned)}
    record(cur, pipeline, "accept-loss", person, detail)


def _offsets(lost: StreamRange) -> dict[str, int]:
    return {
        "stream_id": lost.stream_id,
        "from_offset": lost.offsets.from_offset,
        "until_offset": lost.offsets.until_offset,
    }


def _pass_over(cur: cursor, item: StreamRange, position: int) -> None:
    cur.execute(Q["pass_over"], _offsets(item) | {"position": position})
    if cur.rowcount != 1:
        raise PositionMoved(f"{item.offsets}: the position does not stand at {position} any more")
