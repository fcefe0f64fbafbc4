"""Copies raw records of a pipeline's topics into files before retention deletes them.

A file counts when it was closed, read back, and its row committed. A try that ends earlier leaves nothing that counts.
"""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.archive.store import PARQUET, ArchiveStore
from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition, TopicView, TopicViews
from lockstep.core.pipeline.limits import MEGABYTE
from lockstep.core.retention.archive import ArchivedFile, due_below_size, due_stretches, missed_stretches
from lockstep.engine.archive_file import FileWriter, hashed
from lockstep.engine.archived_ranges import ArchivedRanges
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.engine.kafka_raw import log_place
from lockstep.faults import reach
from lockstep.ledger.batch import archived as ledger
from lockstep.ledger.views import rates
from lockstep.steps.batch.one_log import require_one_log
from lockstep.steps.changes.decisions import deciding
from lockstep.steps.inspect.paces import DAYS_OF_HISTORY, paces_of, record_size
from lockstep.steps.requests.edges import streams_of_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.retention.archive import Archive
    from lockstep.steps.context import Context

FILE_BYTES = 128 * MEGABYTE  # of keys, values and headers. A file is read as a whole, in memory.
ANY_SIZE = 2**31 - 1  # no record is cut


@dataclass(frozen=True, slots=True)
class Copied:
    """One file that counts, with its size in the store."""

    file: ArchivedFile
    bytes: int


@dataclass(frozen=True, slots=True)
class Archived:
    """The files that a call has written. `due` is, per partition, the offset below which records are due.

    It is empty if retention deletes nothing. `missed` was deleted behind the first file before it was archived.
    """

    copied: tuple[Copied, ...]
    due: dict[TopicPartition, int]
    missed: tuple[OffsetRange, ...]


def archive_due(
    at: Context, pipeline: Pipeline, now: datetime, *, sparing: bool = False, go_on: Callable[[], None] = lambda: None
) -> Archived:
    """Copies, topic by topic, the offsets that retention may delete within the archive's time, and that no file holds.

    `sparing` waits until a record may be deleted within half of that time, so that files are few. Raises `Refusal` if
    a log is not the one that was read, or if its settings may not be read. Topics behind it are copied before that.
    """
    place = archive_place(pipeline)
    seen = read_topics(at.broker, pipeline)
    found: list[Archived] = []
    refused: list[Refusal] = []
    for view in seen.topics:
        one = seen if isinstance(seen, TopicView) else TopicViews(seen.cluster_id, (view,))
        try:
            with transaction(at.conn, READER) as cur:
                streams_of_log(cur, pipeline, one, None)  # refuses while the log is another one
            require_one_log(at.conn, at.broker, pipeline, one)
            found.append(_archive_topic(at, pipeline, view, place, now, sparing=sparing, go_on=go_on))
        except Unreachable:
            raise
        except Refusal as refusal:
            refused.append(refusal)
    if refused:
        raise refused[0]
    copied = tuple(each for one in found for each in one.copied)
    due = {where: offset for one in found for where, offset in one.due.items()}
    return Archived(copied, due, tuple(each for one in found for each in one.missed))


def _archive_topic(
    at: Context,
    pipeline: Pipeline,
    view: TopicView,
    place: Archive,
    now: datetime,
    *,
    sparing: bool,
    go_on: Callable[[], None],
) -> Archived:
    """Copies what is due of one topic."""
    with transaction(at.conn, READER) as cur:
        logs = ledger.logs_to_archive(cur, pipeline.name, view)
    due = _due(at, pipeline, view, place.ahead, now)
    soon = _due(at, pipeline, view, place.ahead / 2, now) if sparing else due
    copied: list[Copied] = []
    missed: list[OffsetRange] = []
    for log in logs:
        bounds = view.bounds.get(log.partition)
        if bounds is None or log.partition not in due:
            continue
        known = list(zip(log.froms, log.untils, strict=True))
        where = TopicPartition(view.topic, log.partition)
        missed += [OffsetRange(where, *gap) for gap in missed_stretches(bounds.log_start, known)]
        if not due_stretches(bounds, log.least, soon[log.partition], known):
            continue
        for begin, end in due_stretches(bounds, log.least, due[log.partition], known):
            item = StreamRange(log.stream_id, OffsetRange(where, begin, end))
            copied += _copied(at, pipeline, view, item, go_on)
    return Archived(tuple(copied), {TopicPartition(view.topic, p): offset for p, offset in due.items()}, tuple(missed))


def archive_place(pipeline: Pipeline) -> Archive:
    """Returns the archive of a pipeline. Raises `Refusal` if its definition names none."""
    if pipeline.archive is None:
        raise Refusal(
            f"{pipeline.name}: its definition names no archive",
            next_command=f'add archive=Archive("file:///FOLDER") to it, then lockstep check {pipeline.name}',
        )
    return pipeline.archive


def _due(at: Context, pipeline: Pipeline, view: TopicView, ahead: timedelta, now: datetime) -> dict[int, int]:
    """Returns, per partition, the offset below which retention may delete records within `ahead`."""
    limits = at.broker.retention_limits(view.topic)
    if limits is None:
        raise Refusal(
            f"{view.topic}: the login may not read the topic's settings, so nothing tells what retention deletes",
            next_command=f"allow it DESCRIBE_CONFIGS on {view.topic}, then lockstep archive {pipeline.name}",
        )
    found: dict[int, int] = {}
    if limits.time is not None:
        moment = now - limits.time + ahead
        ends = {p: bounds.stable_end for p, bounds in view.bounds.items()}
        found = ends if moment >= now else at.broker.offsets_at(view, moment)
    if limits.size is not None:
        with transaction(at.conn, READER) as cur:
            since = now - timedelta(days=DAYS_OF_HISTORY)
            pasts = rates.committed_rates(cur, pipeline.name, view.topic, since, now)
        highs, paces = at.broker.high_ends(view), paces_of(at.broker, view, pasts, now)
        for p in view.bounds:
            coming = (paces[p][1].size or 0.0) * ahead.total_seconds()
            below = due_below_size(limits.size, coming, record_size(pasts, p), highs[p])
            found[p] = max(found.get(p, 0), below)
    return found


def _copied(
    at: Context, pipeline: Pipeline, view: TopicView, item: StreamRange, go_on: Callable[[], None]
) -> Iterator[Copied]:
    """Copies one stretch, file by file. Yields each when its row is committed."""
    store = ArchiveStore(archive_place(pipeline).place)
    reader = KafkaRanges(at.broker.bootstrap, at.broker.options, ANY_SIZE)
    held = (held for held, _, _ in reader.messages([item], go_on))
    messages = (message for part in held for message in part[log_place(item)])
    at_offset, until = item.offsets.from_offset, item.offsets.until_offset
    following = next(messages, None)
    while at_offset < until:
        with tempfile.TemporaryDirectory(prefix="lockstep-archive-") as folder:
            local = Path(folder, f"file{PARQUET}")
            written = FileWriter(local, at_offset)
            while following is not None and written.size < FILE_BYTES:
                written.add(following)
                following = next(messages, None)
            end = until if following is None else following.offset()
            offsets = OffsetRange(item.offsets.topic_partition, at_offset, end)
            path = _path(pipeline, view, offsets)
            file = written.closed(offsets, path)
            store.put(path, local)
            reach("archive.file_closed")
            size = local.stat().st_size
        try:
            _require_same(store, pipeline, file, written.said.hexdigest())
            reach("archive.read_back")
            _count(at, pipeline, view, item.stream_id, Copied(file, size), written.newest)
        except Exception:
            store.remove(path)
            raise
        yield Copied(file, size)
        at_offset = end


def _count(
    at: Context, pipeline: Pipeline, view: TopicView, stream_id: int, copied: Copied, newest: datetime | None
) -> None:
    """Commits the row of a file, if the log has not lost its beginning meanwhile."""
    offsets = copied.file.offsets
    seen = at.broker.view(view.topic)
    bounds = seen.bounds.get(offsets.topic_partition.partition)
    again = f"lockstep archive {pipeline.name}"
    if (seen.cluster_id, seen.topic_id) != (view.cluster_id, view.topic_id) or bounds is None:
        raise Refusal(f"{offsets}: the topic was made anew while it was copied", next_command=again)
    if bounds.log_start > offsets.from_offset:
        raise Refusal(
            f"{offsets}: the log now starts at {bounds.log_start}: records were deleted while they were copied",
            next_command=again,
        )
    with deciding(at.conn, pipeline.name) as cur:
        ledger.insert_archived(cur, stream_id, copied.file, copied.bytes, newest, bounds.log_start)
        reach("archive.row_written")


def _require_same(store: ArchiveStore, pipeline: Pipeline, file: ArchivedFile, said: str) -> None:
    """Reads the file back from the store. Its records must be those that Kafka gave, to the byte."""
    reader = ArchivedRanges("", KafkaOptions(), pipeline=pipeline.name, store=store)
    found = hashlib.sha256()
    for messages in reader.messages_of(file, file.offsets.from_offset, file.offsets.until_offset):
        hashed(messages, found)
    if found.hexdigest() != said:
        raise Refusal(
            f"{file.offsets}: the archived file {store.shown}/{file.path} gives other records than Kafka gave",
            next_command=f"lockstep archive {pipeline.name}",
        )


def _path(pipeline: Pipeline, view: TopicView, offsets: OffsetRange) -> str:
    """Returns a path that no other try has. The topic's id, as a path can hold it, keeps topics of one name apart."""
    topic_id = view.topic_id.replace("/", "_").replace("+", "-")
    name = f"{offsets.from_offset:020}-{offsets.until_offset:020}-{secrets.token_hex(4)}{PARQUET}"
    return f"{pipeline.name}/{view.topic}/{topic_id}/{offsets.topic_partition.partition}/{name}"
