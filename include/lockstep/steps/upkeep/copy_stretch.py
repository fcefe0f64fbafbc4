"""Copies one stretch of a log into files of the archive. Each counts once its row is committed."""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.archive.store import PARQUET
from lockstep.core.errors import Refusal, Unreachable, UnreadableHeaders
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange
from lockstep.core.pipeline.limits import MEGABYTE
from lockstep.engine.archive_file import FileWriter, hashed
from lockstep.engine.archived_ranges import ArchivedRanges
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.engine.kafka_raw import log_place
from lockstep.faults import reach
from lockstep.ledger.batch import archived as ledger
from lockstep.steps.changes.decisions import deciding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from lockstep.adapters.archive.store import ArchiveStore
    from lockstep.core.offsets import StreamRange, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.retention.archive import ArchivedFile
    from lockstep.steps.context import Context

FILE_BYTES = 128 * MEGABYTE  # of keys, values and headers. A file is read as a whole, in memory.


@dataclass(frozen=True, slots=True)
class Copied:
    """One file that counts, with its size in the store."""

    file: ArchivedFile
    bytes: int


def copy_stretch(
    at: Context,
    pipeline: Pipeline,
    view: TopicView,
    item: StreamRange,
    store: ArchiveStore,
    unreadable: list[UnreadableHeaders],
    go_on: Callable[[], None],
) -> Iterator[Copied]:
    """Copies one stretch, file by file. Yields each when its row is committed.

    A record that Kafka's client cannot read parts two files. It is added to `unreadable`.
    """
    reader = KafkaRanges(at.broker.bootstrap, at.broker.options, limits=None)
    held = (held for held, _, _ in reader.messages([item], go_on))
    messages = (message for part in held for message in part[log_place(item)])
    at_offset, until = item.offsets.from_offset, item.offsets.until_offset
    following = next(messages, None)
    while at_offset < until:
        with tempfile.TemporaryDirectory(prefix="lockstep-archive-") as folder:
            local = Path(folder, f"file{PARQUET}")
            written = FileWriter(local, at_offset)
            behind = 0
            while following is not None and written.size < FILE_BYTES:
                try:
                    written.add(following)
                except UnreadableHeaders as error:
                    unreadable.append(error)
                    behind = 1
                    break
                following = next(messages, None)
            end = until if following is None else following.offset()
            following = next(messages, None) if behind else following
            if end == at_offset:
                at_offset += behind
                continue
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
        except Unreachable:
            raise  # its row may be committed, and without one it counts for nothing
        except Exception:
            store.remove(path)
            raise
        yield Copied(file, size)
        at_offset = end + behind


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
