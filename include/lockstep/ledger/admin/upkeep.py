"""Merges neighbouring coverage below log start, which cannot be replayed any more, and forgets old deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.planning.deletions import LoggedStream
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.admin", "upkeep")


def crowded(cur: cursor, least: int) -> list[Any]:
    """Returns the streams with at least `least` coverage rows of batches, by topic."""
    cur.execute(Q["crowded"], {"least": least})
    return every(cur)


def below_log_start(cur: cursor, log_starts: Mapping[int, int], least: int) -> list[int]:
    """Returns the streams with at least `least` coverage rows of batches below their log start."""
    known = {"streams": list(log_starts), "log_starts": list(log_starts.values())}
    cur.execute(Q["below_log_start"], known | {"least": least})
    return [row.stream_id for row in every(cur)]


def merge(cur: cursor, stream_id: int, begin: int, log_start: int, most: int) -> Any:
    """Merges coverage among the next rows from `begin` on. Returns a row with `seen`, `gone`, `made`, `last_begin`.

    The caller holds the pipeline's lock. Claims and requests are only written under it.
    """
    where = {"stream_id": stream_id, "begin": begin, "log_start": log_start, "most": most}
    cur.execute(Q["merge"], where)
    return one(cur)


def rejecting(cur: cursor) -> list[str]:
    """Reads the pipelines with rejects that still have their bytes."""
    cur.execute(Q["rejecting"])
    return [row.name for row in every(cur)]


def empty_old_rejects(cur: cursor, pipeline: str, most: int) -> int:
    """Empties at most so many rejects that are past the retention of the pipeline's definition.

    Returns their number.
    """
    cur.execute(Q["empty_old_rejects"], {"pipeline": pipeline, "most": most})
    return int(one(cur).emptied)


def buried(cur: cursor) -> list[Any]:
    """Reads the streams with remembered deletions, by topic."""
    cur.execute(Q["buried"])
    return every(cur)


def streams_with_logs(cur: cursor, pipeline: str) -> list[LoggedStream]:
    """Reads every stream of a pipeline with its log."""
    cur.execute(Q["streams_of_pipeline"], {"pipeline": pipeline})
    return [LoggedStream(*row) for row in every(cur)]


def forget_deletions_below(cur: cursor, stream: LoggedStream, pipeline: str, below: int, most: int) -> int:
    """Forgets at most `most` deletions of a stream below an offset. Returns their number.

    The caller holds the pipeline's lock. Claims are only written under it.
    """
    facts = {"stream_id": stream.stream_id, "topic": stream.topic, "epoch": stream.epoch, "pipeline": pipeline}
    cur.execute(Q["forget_deletions"], facts | {"below": below, "most": most})
    return cur.rowcount
