"""Replays segments that hold rejects under today's code. Reports those that cannot be read again, and leaves them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange, StreamRange
from lockstep.core.states import Lane
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.changes import requests
from lockstep.steps.batch.one_log import require_one_log
from lockstep.steps.requests.edges import streams_of_log
from lockstep.steps.requests.plan_request import mixes_partitions
from lockstep.steps.requests.requests import touched_segments, written_down

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Bounds
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.requests import Request

LOG_IS_LEFT = "the pipeline does not read their log any more: it was made anew, left by a move, or is gone"


@dataclass(frozen=True, slots=True)
class Held:
    """The rejects to redrive: all of them, one topic's, one partition's, or one batch's."""

    partition: int | None = None
    batch_id: int | None = None
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Rejects that stay as they are, and why their segment is not read again."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    rejects: int
    why: str

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition} [{self.from_offset}, {self.until_offset})"
        rejects = "1 reject" if self.rejects == 1 else f"{self.rejects} rejects"
        return f"{where}: {rejects}, which cannot be read again: {self.why}"


@dataclass(frozen=True, slots=True)
class Redrive:
    """The replay as it was requested, the number of rejects in its stretches, and the rejects that it leaves out."""

    asked: Request | None
    before: int
    unreadable: tuple[Unreadable, ...]


def redrive(
    conn: connection, broker: Broker, folder: PipelineFolder, held: Held, person: Person, *, preview: bool = False
) -> Redrive:
    """Requests a replay of every segment that holds such a reject and can be read again.

    Raises `Refusal` when there are such segments and none can be read any more.
    """
    pipeline = folder.pipeline
    view = read_topics(broker, pipeline)
    require_one_log(conn, broker, pipeline, view)
    whole = mixes_partitions(folder)
    with transaction(conn, READER) as cur:
        view = with_archive(cur, pipeline, view)
        streams = streams_of_log(cur, pipeline, view, None)
        meant = streams_of_log(cur, pipeline, view, held.partition, held.topic)  # refuses a partition that is not there
        partitions = {s.stream_id: s.topic_partition for s in streams}
        rows = requests.rejected_segments(cur, [s.stream_id for s in meant], held.batch_id)
        bounds = {s.stream_id: view[s.topic_partition] for s in streams}
        why = _left_out(cur, rows, bounds, whole_batches=whole)
        told, readable = [], []
        for row in rows:
            offsets = OffsetRange(partitions[row.stream_id], row.from_offset, row.until_offset)
            if reason := why.get(_unit(row, whole_batches=whole)):
                told.append(Unreadable(*_where(offsets), row.rejects, reason))
            else:
                readable.append(StreamRange(row.stream_id, offsets))
        gone = requests.rejects_elsewhere(cur, pipeline.name, list(partitions), asdict(held))
        told += [Unreadable(**row._asdict(), why=LOG_IS_LEFT) for row in gone]
        windows = touched_segments(cur, streams, readable, whole_batches=whole)
        before = sum(row.count for row in requests.rejects_within(cur, windows))
    if told and not windows:
        more = f" (and {len(told) - 1} more such stretches)" if len(told) > 1 else ""
        raise Refusal(f"{told[0]}{more}; their bytes are kept", next_command=f"lockstep rejects {pipeline.name}")
    asked = written_down(conn, pipeline, Lane.REPLAY, windows, person, view, preview=preview)
    return Redrive(asked, before, tuple(told))


def _where(offsets: OffsetRange) -> tuple[str, int, int, int]:
    where = offsets.topic_partition
    return where.topic, where.partition, offsets.from_offset, offsets.until_offset


def remaining_rejects(conn: connection, windows: Sequence[StreamRange]) -> list[Any]:
    """Returns why records of these stretches are rejects now, as rows (reason, count)."""
    with transaction(conn, READER) as cur:
        return requests.rejects_within(cur, windows)


def _left_out(cur: cursor, rows: Sequence[Any], bounds: Mapping[int, Bounds], *, whole_batches: bool) -> dict[Any, str]:
    """Returns, by `_unit`, why segments with rejects are not replayed.

    Other segments that must be replayed with them are below log start.
    """
    together = requests.segments_of(cur, {row.batch_id for row in rows}) if whole_batches else rows
    return {
        _unit(row, whole_batches=whole_batches): (
            f"batch {row.batch_id} begins at {row.from_offset}, below the log's start {bounds[row.stream_id].log_start}"
        )
        for row in together
        if not bounds[row.stream_id].holds(row.from_offset, row.until_offset)
    }


def _unit(row: Any, *, whole_batches: bool) -> Any:
    return row.batch_id if whole_batches else (row.stream_id, row.from_offset)
