"""Warns about short retention, transactions that stay open, and partitions that were added.

Changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.health.alarms import Reading, alarms, grown
from lockstep.core.offsets import TopicPartition
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.views import reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime, timedelta

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import Bounds, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.ledger.views.reading import Document


def known_partitions(conn: connection, pipeline: Pipeline) -> frozenset[int]:
    """Returns the partitions that the last plan knew. Returns none before the first."""
    with transaction(conn, READER) as cur:
        return frozenset(row.partition for row in reading.stream_progress(cur, pipeline.name))


def warn(conn: connection, broker: Broker, pipeline: Pipeline, known: Collection[int], now: datetime) -> list[Document]:
    """Returns every current warning about the pipeline. `known` are the partitions that an earlier plan knew.

    It follows finished work, and never turns it into a failure. It reports nothing about a system that is away.
    """
    with suppress(Refusal):
        with transaction(conn, READER) as cur:
            rows = reading.stream_progress(cur, pipeline.name)
        view = broker.view(pipeline.topic)
        with transaction(conn, READER) as cur:
            view = with_archive(cur, pipeline, view)
        bounds = {row.stream_id: found for row in rows if (found := bounds_of(row, view))}
        kept = broker.retention(pipeline.topic) if bounds else None
        return warnings(pipeline, view, readings(broker, view, rows, bounds, kept), kept, known, now)
    return []


def warnings(
    pipeline: Pipeline,
    view: TopicView,
    found: Iterable[Reading],
    kept: timedelta | None,
    known: Collection[int],
    now: datetime,
) -> list[Document]:
    """Returns the warnings as documents, by partition."""
    added = [
        grown(pipeline.name, TopicPartition(view.topic, p), view.bounds[p])
        for p in sorted(view.bounds.keys() - set(known))
        if known
    ]
    said = [alarm for each in found for alarm in alarms(pipeline.name, each, kept, now)]
    return [asdict(alarm) for alarm in sorted([*added, *said], key=lambda alarm: (alarm.partition, alarm.kind))]


def readings(
    broker: Broker,
    view: TopicView,
    rows: Iterable[Any],
    bounds: dict[int, Bounds],
    kept: timedelta | None,
    *,
    ages: bool = False,
) -> list[Reading]:
    """Returns what is known of each stream's partition. Looks at records only where their time can matter.

    With `ages`, it matters wherever a record waits.
    """
    streams = [row for row in rows if row.stream_id in bounds]
    highs = broker.high_ends(view) if streams else {}
    lagging = {
        row.partition: max(row.position, bounds[row.stream_id].log_start)
        for row in streams
        if (ages or kept is not None) and bounds[row.stream_id].stable_end > row.position
    }
    stalled = {
        row.partition: end for row in streams if highs.get(row.partition, 0) > (end := bounds[row.stream_id].stable_end)
    }
    waiting = broker.first_times(view.topic, lagging) if lagging else {}
    opened = broker.first_times(view.topic, stalled, committed=False) if stalled else {}
    return [
        Reading(
            TopicPartition(row.topic, row.partition),
            row.position,
            bounds[row.stream_id],
            highs.get(row.partition, 0),
            waiting.get(row.partition),
            opened.get(row.partition),
            empty=waiting.get(row.partition, row) is None,
        )
        for row in streams
    ]


def bounds_of(stream: Any, view: TopicView) -> Bounds | None:
    """Returns the bounds that a stream's offsets can be compared with, or None if the log is another one."""
    same = (stream.cluster_id, stream.topic, stream.topic_id) == (view.cluster_id, view.topic, view.topic_id)
    return view.bounds.get(stream.partition) if same else None
