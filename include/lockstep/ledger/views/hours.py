"""Reads and records hours: the newest complete one, the offsets and proof of each, and those to announce."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lockstep.core.offsets import TopicPartition
from lockstep.core.planning.hours import HOUR, HOURS_PER_LOOK, Complete, Covered, Reached
from lockstep.core.states import CoverageKind
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import LogView
    from lockstep.core.planning.hours import HourOffsets
    from lockstep.ledger.views.reading import Document

Q = queries("lockstep.ledger.views", "hours")


def clock(cur: cursor) -> datetime:
    """Reads the database's clock, which the ledger's times come from."""
    cur.execute(Q["clock"])
    now: datetime = one(cur).now
    return now


def complete_through(cur: cursor, pipeline: str) -> datetime | None:
    """Returns the end of the newest complete hour, or None before the first."""
    cur.execute(Q["last_hour"], {"pipeline": pipeline})
    row = maybe(cur)
    return row.until if row else None


def complete_from(cur: cursor, pipeline: str) -> datetime | None:
    """Returns the beginning of the oldest complete hour, or None before the first."""
    cur.execute(Q["first_hour"], {"pipeline": pipeline})
    until: datetime | None = one(cur).until
    return until - HOUR if until else None


def has_retired_streams(cur: cursor, pipeline: str) -> bool:
    """Returns True if the pipeline has streams that it reads no more."""
    cur.execute(Q["has_retired_streams"], {"pipeline": pipeline})
    found: bool = one(cur).has_retired
    return found


def begun(cur: cursor, pipeline: str, start: datetime | None) -> datetime | None:
    """Returns the pipeline's start time, else the opening of its streams, or None without either."""
    cur.execute(Q["begun"], {"pipeline": pipeline, "start": start})
    row = one(cur)
    found: datetime | None = row.starts_at or row.opened_at
    return found


def reached(cur: cursor, pipeline: str) -> tuple[tuple[Reached, ...], set[tuple[str, str, str]]]:
    """Returns the end of the hours in each stream, and the logs, as (cluster id, topic, topic id), still read."""
    cur.execute(Q["reached"], {"pipeline": pipeline})
    rows = every(cur)
    return tuple(
        Reached(
            row.stream_id,
            TopicPartition(row.topic, row.partition),
            row.start_offset,
            row.position,
            row.offset,
            ends=row.ends,
            gone=row.is_gone,
            renewed=row.renewed,
        )
        for row in rows
    ), {(row.cluster_id, row.topic, row.topic_id) for row in rows if not row.ends}


def boundaries(cur: cursor, pipeline: str, at: datetime) -> dict[TopicPartition, int]:
    """Returns, per partition, the offset that a time was resolved to. Omits partitions without one."""
    cur.execute(Q["boundaries"], {"pipeline": pipeline, "at": at})
    return {TopicPartition(row.topic, row.partition): row.offset for row in every(cur)}


def keep_boundaries(
    cur: cursor, pipeline: str, view: LogView, at: datetime, found: Mapping[TopicPartition, int]
) -> None:
    """Records a time's offsets by partition in these logs, for later callers."""
    ids = {each.topic: each.topic_id for each in view.topics}
    known = {
        "topic_ids": [ids[where.topic] for where in found],
        "partitions": [where.partition for where in found],
        "offsets": list(found.values()),
    }
    cur.execute(Q["keep_boundaries"], {"pipeline": pipeline, "at": at, "cluster_id": view.cluster_id} | known)


def covered(cur: cursor, offsets: Sequence[HourOffsets]) -> list[Covered]:
    """Returns the coverage of an hour's offsets, with the stretch right below those of each stream."""
    cur.execute(Q["covered"], _columns(offsets))
    return [
        Covered(r.stream_id, r.from_offset, r.until_offset, CoverageKind(r.kind), r.batch_id, r.accepted_at)
        for r in every(cur)
    ]


def insert_hour(cur: cursor, pipeline: str, hour: Complete) -> None:
    """Records a complete hour with its proof."""
    facts = {"pipeline": pipeline, "until": hour.until, "proof": json.dumps(proof(hour))}
    cur.execute(Q["insert_hour"], facts)
    cur.execute(Q["insert_offsets"], {"pipeline": pipeline, "until": hour.until} | _columns(hour.offsets))


def proof(hour: Complete) -> Document:
    """Returns the batches that own an hour's offsets, and the losses that may have held records of it."""
    where = {part.stream_id: part.topic_partition for part in hour.offsets}
    losses = [
        {
            "topic": where[loss.stream_id].topic,
            "partition": where[loss.stream_id].partition,
            "from_offset": loss.from_offset,
            "until_offset": loss.until_offset,
            "kind": loss.kind,
        }
        for loss in hour.losses
    ]
    return {"batches": list(hour.batches), "losses": losses}


def hours(cur: cursor, pipeline: str, last: int | None) -> list[Document]:
    """Returns the newest complete hours with their proofs, the oldest of them first."""
    cur.execute(Q["hours"], {"pipeline": pipeline, "last": last})
    return _documents(cur, pipeline, every(cur))


def hour(cur: cursor, pipeline: str, until: datetime) -> Document | None:
    """Returns one complete hour with its proof, or None if it is not complete."""
    cur.execute(Q["hour"], {"pipeline": pipeline, "until": until})
    return next(iter(_documents(cur, pipeline, every(cur))), None)


def to_tell(cur: cursor, pipeline: str, told_by: str) -> list[datetime]:
    """Returns at most `HOURS_PER_LOOK` hours to announce, the oldest first: new ones, then those that have changed since.

    Includes those that this very caller has announced last.
    """
    cur.execute(Q["hours_to_tell"], {"pipeline": pipeline, "told_by": told_by, "most": HOURS_PER_LOOK})
    return [row.until for row in every(cur)]


def tell(cur: cursor, pipeline: str, until: datetime, told_by: str) -> int | None:
    """Records that an hour is announced, if it never was or has changed since. Returns its revision.

    A second call of one caller returns the same revision. Returns None if another caller has announced it.
    """
    known = {"pipeline": pipeline, "until": until}
    cur.execute(Q["insert_told"], known | {"told_by": told_by})
    cur.execute(Q["newest_telling"], known)
    newest = maybe(cur)
    return newest.revision if newest and newest.told_by == told_by else None


def owners_of_hour(cur: cursor, pipeline: str, until: datetime) -> list[int]:
    """Returns the batches that own an hour's offsets now, in order."""
    cur.execute(Q["owners"], {"pipeline": pipeline, "until": until})
    return [row.batch_id for row in every(cur)]


def told_again(cur: cursor, pipeline: str, most: int) -> list[Any]:
    """Returns the newest hours that changed after they were announced: `until`, `revision`, `changed`."""
    cur.execute(Q["told_again"], {"pipeline": pipeline, "most": most})
    return every(cur)


def _documents(cur: cursor, pipeline: str, rows: Sequence[Any]) -> list[Document]:
    cur.execute(Q["offsets_of_hours"], {"pipeline": pipeline, "hours": [row.until for row in rows]})
    offsets: dict[datetime, list[Document]] = {}
    for each in every(cur):
        document = each._asdict()
        offsets.setdefault(document.pop("until"), []).append(document)
    return [
        {"from": row.until - HOUR, "until": row.until, **row.proof, "offsets": offsets.get(row.until, [])}
        | {"revision": row.revision, "changed": row.changed}
        for row in rows
    ]


def _columns(offsets: Sequence[HourOffsets]) -> dict[str, list[int]]:
    return {
        "streams": [part.stream_id for part in offsets],
        "froms": [part.from_offset for part in offsets],
        "untils": [part.until_offset for part in offsets],
    }
