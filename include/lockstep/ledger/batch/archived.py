"""Reads and records which offsets of a log files hold. A file counts from its row on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import IntegrityError

from lockstep.adapters.postgres_words import without_values
from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.retention.archive import ArchivedFile
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import LogView, TopicView
    from lockstep.core.pipeline.definition import Pipeline

Q = queries("lockstep.ledger.batch", "archived")


def with_archive(cur: cursor, pipeline: Pipeline, view: LogView) -> LogView:
    """Returns the view of a pipeline's logs with the stretches that its archive holds, of each topic its own.

    Asks the ledger for nothing if the definition names no archive.
    """
    if pipeline.archive is None:
        return view
    topics = {"topics": [each.topic for each in view.topics], "topic_ids": [each.topic_id for each in view.topics]}
    cur.execute(Q["archived_stretches"], {"pipeline": pipeline.name, "cluster_id": view.cluster_id} | topics)
    found: dict[TopicPartition, tuple[tuple[int, int], ...]] = {}
    for row in every(cur):
        where = TopicPartition(row.topic, row.partition)
        found[where] = (*found.get(where, ()), (row.from_offset, row.until_offset))
    return view.with_archived(found)


def files_below(
    cur: cursor, pipeline: Pipeline, ranges: Iterable[StreamRange], log_starts: Mapping[int, int]
) -> tuple[ArchivedFile, ...]:
    """Returns the files that hold ranges which begin below their log's start. `log_starts` is by stream."""
    if pipeline.archive is None:
        return ()
    below = [item for item in ranges if item.offsets.from_offset < log_starts[item.stream_id]]
    return files_of(cur, below) if below else ()


def files_of(cur: cursor, ranges: Sequence[StreamRange]) -> tuple[ArchivedFile, ...]:
    """Returns the files that hold offsets of these ranges, in order."""
    asked = {
        "streams": [item.stream_id for item in ranges],
        "froms": [item.offsets.from_offset for item in ranges],
        "untils": [item.offsets.until_offset for item in ranges],
    }
    cur.execute(Q["files_of"], asked)
    return tuple(dict.fromkeys(map(_file, every(cur))))


def first_files_at(
    cur: cursor, pipeline: Pipeline, view: LogView, below: Mapping[TopicPartition, int], moment: datetime
) -> tuple[ArchivedFile, ...]:
    """Returns, per partition, the first file below an offset with a record at or past a moment."""
    ids = {each.topic: each.topic_id for each in view.topics}
    asked = {
        "topics": [at.topic for at in below],
        "topic_ids": [ids[at.topic] for at in below],
        "partitions": [at.partition for at in below],
        "belows": list(below.values()),
    }
    cur.execute(
        Q["first_files_at"], {"pipeline": pipeline.name, "cluster_id": view.cluster_id, "moment": moment} | asked
    )
    return tuple(map(_file, every(cur)))


def every_file(cur: cursor, pipeline: str) -> list[ArchivedFile]:
    """Returns all files of a pipeline that count, also those of a log that is gone."""
    cur.execute(Q["every_file"], {"pipeline": pipeline})
    return [_file(row) for row in every(cur)]


def logs_to_archive(cur: cursor, pipeline: str, view: TopicView) -> list[Any]:
    """Returns rows (stream_id, partition, least, froms, untils) of the streams that opened today's log of a topic.

    `froms` and `untils` are of every file that was ever written, dropped ones too.
    """
    log = {"cluster_id": view.cluster_id, "topic": view.topic, "topic_id": view.topic_id}
    cur.execute(Q["logs_to_archive"], {"pipeline": pipeline} | log)
    return every(cur)


def insert_archived(
    cur: cursor, stream_id: int, file: ArchivedFile, size: int, newest: datetime | None, log_start: int
) -> None:
    """Records a file that was read back. From the COMMIT on, its offsets can be read below log start.

    Raises `Refusal` if another file holds these offsets, or if upkeep has let go of them meanwhile.
    """
    facts = {
        "stream_id": stream_id,
        "from_offset": file.offsets.from_offset,
        "until_offset": file.offsets.until_offset,
        "path": file.path,
        "records": file.records,
        "bytes": size,
        "sum": file.digest[0],
        "squares": file.digest[1],
        "sha256": file.sha256,
        "newest": newest,
        "log_start": log_start,
    }
    try:
        cur.execute(Q["insert_archived"], facts)
    except IntegrityError as error:
        raise Refusal(f"{file.offsets} cannot be archived any more: {without_values(error)[0]}") from None


def droppable(cur: cursor, pipeline: str, before: datetime) -> list[Any]:
    """Returns the files whose newest record is older than a moment, with what keeps one from being dropped."""
    cur.execute(Q["droppable"], {"pipeline": pipeline, "before": before})
    return every(cur)


def insert_drops(cur: cursor, decision_id: int, files: Sequence[int]) -> None:
    """Records that a decision dropped these files."""
    cur.execute(Q["insert_drops"], {"decision_id": decision_id, "files": list(files)})


def dropped_paths(cur: cursor, pipeline: str) -> list[str]:
    """Returns the paths of all files of a pipeline that a decision dropped."""
    cur.execute(Q["dropped_paths"], {"pipeline": pipeline})
    return [row.path for row in every(cur)]


def note_upkept(cur: cursor, pipeline: str, log: tuple[str, str], log_starts: Mapping[int, int]) -> None:
    """Records, by partition, the log starts that an upkeep acts on. `log` is (cluster id, topic id).

    Nothing below them is archived later. The caller holds the pipeline's lock.
    """
    known = {"partitions": list(log_starts), "log_starts": list(log_starts.values())}
    cur.execute(Q["note_upkept"], {"pipeline": pipeline, "cluster_id": log[0], "topic_id": log[1]} | known)


def archive_facts(cur: cursor, pipeline: str) -> list[Any]:
    """Returns rows (topic, partition, files, records, bytes, from_offset, until_offset) of what the archive holds."""
    cur.execute(Q["archive_facts"], {"pipeline": pipeline})
    return every(cur)


def _file(row: Any) -> ArchivedFile:
    where = TopicPartition(row.topic, row.partition)
    digest = (int(row.digest_sum), int(row.digest_squares))
    return ArchivedFile(
        OffsetRange(where, row.from_offset, row.until_offset), row.path, row.records, digest, row.sha256
    )
