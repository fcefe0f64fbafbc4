"""Reads how fast the records of each partition came, by their own timestamps, from what was committed of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.retention.prospects import Volume
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.views", "rates")


def committed_rates(cur: cursor, pipeline: str, topic: str, since: datetime, now: datetime) -> dict[int, Volume]:
    """Returns each partition's records and bytes since a moment, with those of its worst hour.

    Counts what a fill or the live lane has read, and no replay. Omits partitions without a record.
    """
    cur.execute(Q["rates"], {"pipeline": pipeline, "topic": topic, "since": since, "now": now})
    return {
        row.partition: Volume(row.records, row.bytes, row.worst_hour, row.worst_records, row.worst_bytes)
        for row in every(cur)
    }
