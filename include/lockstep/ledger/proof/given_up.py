"""Queries the offsets that somebody has given up, and the decisions that name them, for `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.proof.given_up import OffsetCounts, OffsetsCheck, added
from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.proof", "given_up")


def given_up_check(cur: cursor, pipeline: str) -> OffsetsCheck:
    """Checks that decisions name all lost and skipped offsets, and counts the pipeline's offsets."""
    offsets = added(counts_of_streams(cur, pipeline).values())
    wrong = first_wrong(cur, sql.SQL(Q["undecided"]), {"pipeline": pipeline})
    detail = str(wrong) if wrong.count else str(offsets)
    return OffsetsCheck("what is given up was decided", not wrong.count, detail, offsets=offsets)


def counts_of_streams(cur: cursor, pipeline: str) -> dict[int, OffsetCounts]:
    """Returns the counts of each stream that has passed an offset."""
    cur.execute(Q["counts"], {"pipeline": pipeline})
    return {
        row.stream_id: OffsetCounts(row.passed, row.lost, row.skipped, tuple(row.lost_by), tuple(row.skipped_by))
        for row in every(cur)
    }


def lost_stretches(cur: cursor, streams: Sequence[int]) -> list[Any]:
    """Returns the lost stretches of streams."""
    cur.execute(Q["losses"], {"streams": list(streams)})
    return every(cur)
