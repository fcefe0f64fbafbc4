"""Copies raw records of a pipeline's topics into files before retention deletes them.

A file counts when it was closed, read back, and its row committed. A try that ends earlier leaves nothing that counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lockstep.adapters.archive.store import ArchiveStore
from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal, Unreachable, UnreadableHeaders
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition, TopicView, TopicViews
from lockstep.core.retention.archive import due_below_size, due_stretches, missed_stretches
from lockstep.ledger.batch import archived as ledger
from lockstep.ledger.views import rates
from lockstep.steps.batch.one_log import require_one_log
from lockstep.steps.inspect.paces import DAYS_OF_HISTORY, paces_of, record_size
from lockstep.steps.requests.edges import streams_of_log
from lockstep.steps.upkeep.copy_stretch import Copied, copy_stretch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.retention.archive import Archive
    from lockstep.steps.context import Context


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
    """Copies what is due of one topic. Raises `UnreadableHeaders` for a record that cannot be, behind all others."""
    with transaction(at.conn, READER) as cur:
        logs = ledger.logs_to_archive(cur, pipeline.name, view)
    due = _due(at, pipeline, view, place.ahead, now)
    soon = _due(at, pipeline, view, place.ahead / 2, now) if sparing else due
    copied: list[Copied] = []
    missed: list[OffsetRange] = []
    unreadable: list[UnreadableHeaders] = []
    store = ArchiveStore(place.place)
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
            copied += copy_stretch(at, pipeline, view, item, store, unreadable, go_on)
    if unreadable:
        raise unreadable[0]
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
