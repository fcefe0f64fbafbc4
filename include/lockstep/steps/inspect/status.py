"""Shows how far a pipeline is, and its health: the ledger's positions beside the broker's bounds."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.topics import read_topics, retention_of_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.adapters.processes import is_gone
from lockstep.core.changes.promotion import not_deployed
from lockstep.core.health.alarms import Reading, headroom_seconds
from lockstep.core.health.health import Condition, HealthFacts, Work, age, health_word, judge_health
from lockstep.core.offsets import TopicPartition
from lockstep.core.pipeline.schedule import start_of
from lockstep.core.planning.bounds import first_offsets
from lockstep.core.states import CoverageKind
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.changes import promotions, requests
from lockstep.ledger.changes.forgotten import forgetting
from lockstep.ledger.views import overview, reading
from lockstep.steps.inspect.warn import bounds_of, gone_topics, readings, warnings
from lockstep.steps.windows.look import times_of_pipeline

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.promotion import Promotion
    from lockstep.core.offsets import Bounds, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.ledger.views.reading import Document

OF_ALL_STREAMS = ("dag_paused", "lag_records", "oldest_waiting_seconds", "behind_after_seconds")


def status(
    conn: connection,
    broker: Broker,
    pipeline: Pipeline,
    now: datetime,
    *,
    dag_paused: bool | None = None,
    folder: PipelineFolder | None = None,
) -> Document:
    """Returns health, and per open stream position, bounds, lag and holes. Bounds are None if the stream's log is gone.

    `conditions` are the reasons of the health, the worst first. `dag_paused` is None if Airflow was not asked.
    `oldest_waiting_seconds` is the age of the oldest record that waits: 0 if none does, None if it is unknown. It makes
    the pipeline late above `behind_after_seconds`. `complete_through` is the end of the newest hour whose every record
    is in the table, or None before the first. `requests` are the fills and replays that are not complete. `warnings`
    are conditions that will stop the pipeline or make it wait. Each has its offsets and the next command.
    `headroom_records` is how many offsets retention may still delete before it reaches one that is not committed.
    `headroom_seconds` is how long that takes at least. It is None when time deletes nothing, or nothing waits. `holes`
    counts the stretches up to the position that no batch covers and that can be read, so no losses. `feeds` says where
    the feed of each target stands. `forgotten` says who ended the pipeline, when and why. `promoted` is the transform
    that alone commits, or None. With a `folder`, the pipeline is blocked if its transform is another one.
    """
    with transaction(conn, READER) as cur:
        streams = reading.stream_progress(cur, pipeline.name)
        (ours,) = overview.pipelines(cur, [pipeline.name])
        asked = requests.open_requests(cur, pipeline.name)
        ended = _forgotten(cur, pipeline.name)
        promoted = promotions.promotion_in_force(cur, pipeline.name)
        times = times_of_pipeline(cur, pipeline, now)
    known = known_of(ours, dag_paused=dag_paused)
    if folder:
        known = replace(known, not_deployed=not_deployed(pipeline.name, promoted, folder.transform))
    # Asked after the positions: a commit in between would show an end that lies behind the position.
    view = read_topics(broker, pipeline)
    kept = retention_of_topics(broker, view) if streams else {}
    with transaction(conn, READER) as cur:
        view = with_archive(cur, pipeline, view)
        bounds = {row.stream_id: found for row in streams if (found := bounds_of(row, view))}
        holes = reading.read_holes(cur, pipeline.name, {stream: b.whole_from for stream, b in bounds.items()})
    read = readings(broker, view, streams, bounds, kept, ages=True)
    facts = {each.where: each for each in read}
    where = {row.stream_id: TopicPartition(row.topic, row.partition) for row in streams}
    rows = [
        _stream(row, bounds.get(row.stream_id), now, kept.get(row.topic), facts.get(where[row.stream_id]))
        | _holes_of(row.stream_id, holes)
        for row in streams
    ]
    late = pipeline.behind_after
    waits = (
        rows
        if known.planned
        else [each for topic in view.topics for each in _before_the_first_plan(broker, pipeline, topic, now)]
    )
    lags = [each["lag_records"] for each in waits]
    document: Document = {
        **_of_ledger(ours, known, ended, promoted),
        **times,
        "asks_kafka": True,
        "dag_paused": dag_paused,
        "lag_records": sum(lags) if None not in lags else None,
        "oldest_waiting_seconds": _oldest(waits),
        "behind_after_seconds": late.total_seconds() if late else None,
        "requests": [_request(row) for row in asked],
        "streams": rows,
        "warnings": [
            *gone_topics(pipeline, view, streams),
            *warnings(pipeline, view, read, kept, set(where.values()), now),
        ],
    }
    return document | _health(judge_health(known, document))


def _holes_of(stream_id: int, holes: list[Document]) -> Document:
    """Counts a stream's stretches that no batch covers, and those of them that a person has skipped."""
    kinds = [hole["kind"] for hole in holes if hole["stream_id"] == stream_id and hole["kind"] != CoverageKind.LOSS]
    return {"holes": len(kinds), "skipped": kinds.count(CoverageKind.SKIPPED)}


def known_of(row: Any, *, dag_paused: bool | None) -> HealthFacts:
    """Returns the ledger's facts from a row of the overview. A batch is not held if its holder here is gone."""
    work = (
        Work(
            each["batch"],
            each["lane"],
            each["request"],
            each["preview"],
            each["is_live"] and not is_gone(each["owner"]),
            each["failing"],
        )
        for each in row.work
    )
    return HealthFacts(row.name, row.planned, row.paused, tuple(work), dag_paused, forgotten=row.forgotten)


def status_of_ledger(conn: connection, pipeline: str, now: datetime) -> Document:
    """Returns the same from the ledger alone, for a pipeline without a folder. Nothing is known of the log then.

    `holes` counts from each stream's own start. `asks_kafka` is False.
    """
    with transaction(conn, READER) as cur:
        (ours,) = overview.pipelines(cur, [pipeline])
        streams = reading.stream_progress(cur, pipeline)
        holes = reading.read_holes(cur, pipeline, {})
        known = known_of(ours, dag_paused=None)
        return {
            **_of_ledger(ours, known, _forgotten(cur, pipeline), promotions.promotion_in_force(cur, pipeline)),
            **dict.fromkeys(OF_ALL_STREAMS),
            "asks_kafka": False,
            "requests": [_request(row) for row in requests.open_requests(cur, pipeline)],
            "streams": [_stream(row, None, now, None, None) | _holes_of(row.stream_id, holes) for row in streams],
            "warnings": [],
            **_health(judge_health(known, None, "there is no folder here, so Kafka was not asked")),
        }


def _of_ledger(row: Any, known: HealthFacts, forgotten: Document | None, promoted: Promotion | None) -> Document:
    return {
        "pipeline": known.name,
        "paused": known.paused,
        "forgotten": forgotten,
        "promoted": promoted.document() if promoted else None,
        "unfinished": [work.batch_id for work in known.work],
        "under_way": [work.batch_id for work in known.work if work.is_held],
        "interrupted": [work.batch_id for work in known.work if work.is_interrupted],
        "complete_through": row.complete_through,
        "feeds": row.feeds,
    }


def _health(conditions: list[Condition]) -> Document:
    return {"health": health_word(conditions), "conditions": [asdict(each) for each in conditions]}


def _request(row: Any) -> Document:
    return {"request": row.request_id, "lane": row.lane, "who": row.who, "why": row.why, "opened_at": row.opened_at}


def _forgotten(cur: cursor, pipeline: str) -> Document | None:
    found = forgetting(cur, pipeline)
    return {"who": found.who, "why": found.why, "at": found.at} if found else None


def _before_the_first_plan(broker: Broker, pipeline: Pipeline, view: TopicView, now: datetime) -> list[Document]:
    """Returns lag and age per partition for a pipeline without streams, from where its first plan would begin."""
    ends = {p: bounds.stable_end for p, bounds in view.bounds.items()}
    starts = first_offsets(start_of(pipeline.start), view, lambda moment: broker.offsets_at(view, moment), now)
    waiting = {p: at for p, at in starts.items() if at < ends[p]}
    times = broker.first_times(view.topic, waiting) if waiting else {}
    return [
        {
            "lag_records": ends[p] - at,
            "oldest_waiting_seconds": _age(
                Reading(
                    TopicPartition(view.topic, p),
                    at,
                    view.bounds[p],
                    ends[p],
                    times.get(p),
                    empty=times.get(p, at) is None,
                ),
                now,
            ),
        }
        for p, at in starts.items()
    ]


def _stream(row: Any, bounds: Bounds | None, now: datetime, kept: timedelta | None, read: Reading | None) -> Document:
    lag = bounds.stable_end - row.position if bounds else None
    lag_seconds = _lag_seconds(lag, row.newest_timestamp, now)
    headroom = headroom_seconds(read, kept, now) if read else None
    return {
        "topic": row.topic,
        "partition": row.partition,
        "position": row.position,
        "log_start": bounds.log_start if bounds else None,
        "stable_end": bounds.stable_end if bounds else None,
        "lag_records": lag,
        "lag_seconds": lag_seconds,
        "oldest_waiting_seconds": _age(read, now) if read else None,
        "headroom_records": row.position - bounds.log_start if bounds else None,
        "headroom_seconds": _headroom(kept, lag, lag_seconds) if headroom is None else headroom,
    }


def _age(read: Reading, now: datetime) -> float | None:
    """Returns the age of a partition's first waiting record: 0 if none waits, None if unknown."""
    waits = read.bounds.stable_end > read.position
    if not waits or read.empty:
        return 0.0
    return age(read.waiting_since, now)


def _oldest(waits: list[Document]) -> float | None:
    """Returns the greatest age. Returns None if an age is unknown."""
    ages = [each["oldest_waiting_seconds"] for each in waits]
    return max(ages, default=0.0) if None not in ages else None


def _headroom(kept: timedelta | None, lag: int | None, lag_seconds: float | None) -> float | None:
    """Estimates the headroom of a waiting record without a time: it is no older than the last committed record."""
    return max(0.0, round(kept.total_seconds() - lag_seconds, 3)) if kept and lag and lag_seconds else None


def _lag_seconds(lag: int | None, newest: datetime | None, now: datetime) -> float | None:
    """Returns 0 if nothing waits, else the age of the last committed record, or None if there is none (T19)."""
    if lag == 0:
        return 0.0
    if lag is None or newest is None:
        return None
    return max(0.0, round((now - newest).total_seconds(), 3))
