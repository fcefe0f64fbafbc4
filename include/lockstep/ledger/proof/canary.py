"""Reads the batches that a canary compares, and numbers a scrap ledger's batch like one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql
from psycopg2.extras import Json

from lockstep.core.changes.canary import Past
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.proof", "canary")


def newest_committed(cur: cursor, pipeline: str, last: int) -> list[Past]:
    """Returns the newest committed batches of the live lane with their ranges, the newest first."""
    cur.execute(Q["newest_committed"], {"pipeline": pipeline, "last": last})
    return _pasts(cur, pipeline, every(cur))


def past_batches(cur: cursor, pipeline: str, batches: Collection[int]) -> list[Past]:
    """Returns these committed batches of any lane with their ranges, the oldest first."""
    cur.execute(Q["past_batches"], {"pipeline": pipeline, "batches": list(batches)})
    return _pasts(cur, pipeline, every(cur))


def number_next(cur: cursor, past: Past) -> None:
    """Gives the next batch of this ledger the number and the time of a past one. Call it on a ledger that is scrap."""
    number, time = sql.Literal(past.batch_id), sql.Literal(past.planned_at)
    cur.execute(sql.SQL(Q["number_next"]).format(batch_id=number, planned_at=time))


def keep_out(cur: cursor, pipeline: str, past: Past, ids: Mapping[str, str]) -> None:
    """Records the erasures of a past batch's logs in this ledger. Call it on a ledger that is scrap.

    `ids` has the id of each topic there.
    """
    if past.erasures:
        theirs = {topic_id: ids[topic] for topic, (_, topic_id) in past.logs.items()}
        erasures = [each | {"topic_id": theirs[each["topic_id"]]} for each in past.erasures]
        facts = {"pipeline": pipeline, "erasures": Json(erasures)}
        for statement in ("leave_undecided", "former_owners", "hand_over", "salts", "erasures", "erasure_bounds"):
            cur.execute(Q[statement], facts)


def partitions_of_streams(cur: cursor) -> dict[int, TopicPartition]:
    """Returns the partition of each stream."""
    cur.execute(Q["partitions"])
    return {row.stream_id: TopicPartition(row.topic, row.partition) for row in every(cur)}


def _pasts(cur: cursor, pipeline: str, found: Sequence[Any]) -> list[Past]:
    cur.execute(Q["ranges"], {"batches": [row.batch_id for row in found]})
    ranges: dict[int, list[Any]] = {}
    for row in every(cur):
        ranges.setdefault(row.batch_id, []).append(row)
    return [_past(cur, pipeline, row, ranges[row.batch_id]) for row in found]


def _past(cur: cursor, pipeline: str, batch: Any, ranges: list[Any]) -> Past:
    logs = {row.topic: (row.cluster_id, row.topic_id) for row in ranges}
    cur.execute(Q["erasures_of_logs"], {"pipeline": pipeline, "topic_ids": [topic_id for _, topic_id in logs.values()]})
    erasures = tuple(row._asdict() for row in every(cur))
    return Past(batch.batch_id, batch.planned_at, logs, tuple(map(_range, ranges)), erasures, batch.code_version)


def _range(row: Any) -> StreamRange:
    where = TopicPartition(row.topic, row.partition)
    return StreamRange(row.stream_id, OffsetRange(where, row.from_offset, row.until_offset))
