"""Warns about short retention, transactions that stay open, and partitions that were added.

Changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.topics import ends_of, read_topics, retention_of_topics, times_of
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.health.alarms import Reading, alarms, grown, topic_alarm, with_topic
from lockstep.core.offsets import TopicPartition
from lockstep.core.pipeline.names import reads_topic
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.views import reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime, timedelta

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import Bounds, LogView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.ledger.views.reading import Document


def known_partitions(conn: connection, pipeline: Pipeline) -> frozenset[TopicPartition]:
    """Returns the partitions that the last plan knew. Returns none before the first."""
    with transaction(conn, READER) as cur:
        return frozenset(
            TopicPartition(row.topic, row.partition) for row in reading.stream_progress(cur, pipeline.name)
        )


def warn(
    conn: connection, broker: Broker, pipeline: Pipeline, known: Collection[TopicPartition], now: datetime
) -> list[Document]:
    """Returns every current warning about the pipeline. `known` are the partitions that an earlier plan knew.

    It follows finished work, and never turns it into a failure. It reports nothing about a system that is away.
    """
    with suppress(Refusal):
        with transaction(conn, READER) as cur:
            rows = reading.stream_progress(cur, pipeline.name)
        view = read_topics(broker, pipeline)
        with transaction(conn, READER) as cur:
            view = with_archive(cur, pipeline, view)
        bounds = {row.stream_id: found for row in rows if (found := bounds_of(row, view))}
        kept = retention_of_topics(broker, view) if bounds else {}
        read = readings(broker, view, rows, bounds, kept)
        return [*gone_topics(pipeline, view, rows), *warnings(pipeline, view, read, kept, known, now)]
    return []


def warnings(
    pipeline: Pipeline,
    view: LogView,
    found: Iterable[Reading],
    kept: Mapping[str, timedelta | None],
    known: Collection[TopicPartition],
    now: datetime,
) -> list[Document]:
    """Returns the warnings as documents, by topic and partition."""
    topics = {where.topic for where in known}
    added = [
        grown(pipeline.name, where, view[where])
        for each in view.topics
        for where in (TopicPartition(each.topic, p) for p in each.bounds)
        if each.topic in topics and where not in known
    ]
    said = [
        with_topic(alarm, view.option(each.where.topic))
        for each in found
        for alarm in alarms(pipeline.name, each, kept.get(each.where.topic), now)
    ]
    return [asdict(alarm) for alarm in sorted([*added, *said], key=lambda a: (a.topic, a.partition, a.kind))]


def gone_topics(pipeline: Pipeline, view: LogView, rows: Iterable[Any]) -> list[Document]:
    """Returns a warning about each stream whose topic is gone, among several topics."""
    if isinstance(pipeline.topic, str):
        return []
    return [
        asdict(
            topic_alarm(
                pipeline.name,
                TopicPartition(row.topic, row.partition),
                row.position,
                is_named=reads_topic(pipeline.topic, row.topic),
            )
        )
        for row in rows
        if view.log_of(row.topic) is None
    ]


def readings(
    broker: Broker,
    view: LogView,
    rows: Iterable[Any],
    bounds: dict[int, Bounds],
    kept: Mapping[str, timedelta | None],
    *,
    ages: bool = False,
) -> list[Reading]:
    """Returns what is known of each stream's partition. Looks at records only where their time can matter.

    With `ages`, it matters wherever a record waits.
    """
    streams = [row for row in rows if row.stream_id in bounds]
    where = {row.stream_id: TopicPartition(row.topic, row.partition) for row in streams}
    highs = ends_of(broker, view) if streams else {}
    lagging = {
        where[row.stream_id]: max(row.position, bounds[row.stream_id].log_start)
        for row in streams
        if (ages or kept.get(row.topic) is not None) and bounds[row.stream_id].stable_end > row.position
    }
    ends = {where[row.stream_id]: bounds[row.stream_id].stable_end for row in streams}
    stalled = {at: end for at, end in ends.items() if highs.get(at, 0) > end}
    waiting = times_of(broker, view, lagging)
    opened = times_of(broker, view, stalled, committed=False)
    return [
        Reading(
            at,
            row.position,
            bounds[row.stream_id],
            highs.get(at, 0),
            waiting.get(at),
            opened.get(at),
            empty=waiting.get(at, row) is None,
        )
        for row in streams
        for at in (where[row.stream_id],)
    ]


def bounds_of(stream: Any, view: LogView) -> Bounds | None:
    """Returns the bounds that a stream's offsets can be compared with, or None if the log is another one."""
    same = (stream.cluster_id, stream.topic, stream.topic_id) == view.log_of(stream.topic)
    return view.get(TopicPartition(stream.topic, stream.partition)) if same else None
