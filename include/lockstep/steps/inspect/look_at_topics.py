"""Examines each topic that a pipeline reads: its settings, and the records that wait there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.topics import read_topics
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.health.broker_findings import broker_findings
from lockstep.core.health.findings import Check, Finding, Judged, problem
from lockstep.core.health.log_findings import LogFacts, log_findings
from lockstep.core.pipeline.names import topics_named
from lockstep.steps.inspect.sinks import of_sinks
from lockstep.steps.inspect.warn import bounds_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lockstep.adapters.kafka.facts import SurveyedBroker
    from lockstep.core.pipeline.definition import Pipeline

REMEDIES = {
    Check.POSTGRES: "look at LOCKSTEP_DSN; for the embedded database: lockstep dev status",
    Check.KAFKA: "look at LOCKSTEP_KAFKA; for the embedded broker: lockstep dev status",
}
WHY_UNREACHED = {
    Check.POSTGRES: "the ledger and the targets are there: without it nothing is planned, and nothing commits",
    Check.KAFKA: "the log is there: without it nothing can be planned or read",
    Check.TOPIC: "the pipeline has nothing to read",
    Check.DEFINITION: "a pipeline that does not load does not run, and what it needs cannot be looked at",
}


def of_topics(
    broker: SurveyedBroker,
    pipeline: Pipeline,
    cores: int | None,
    streams: Sequence[Any],
    bytes_per_second: float | None,
    now: datetime,
) -> Judged:
    """Looks at each topic of a pipeline as at that of a pipeline of its own."""
    if isinstance(pipeline.topic, str):
        return _of_topic(broker, pipeline, cores, streams, bytes_per_second, now)
    try:
        topics = read_topics(broker, pipeline).topics
    except Unreachable:
        raise
    except Refusal as refusal:
        return [away_finding(Check.TOPIC, topics_named(pipeline.topic), refusal)]
    each = [replace(pipeline, topic=view.topic) for view in topics]
    return [finding for one in each for finding in _of_topic(broker, one, cores, streams, bytes_per_second, now)]


def _of_topic(
    broker: SurveyedBroker,
    pipeline: Pipeline,
    cores: int | None,
    streams: Sequence[Any],
    bytes_per_second: float | None,
    now: datetime,
) -> Judged:
    try:
        topic = broker.topic_facts(pipeline.only_topic)
    except Unreachable:
        raise
    except Refusal as refusal:
        return [away_finding(Check.TOPIC, f"topic {pipeline.topic}", refusal)]
    found = broker.first_times(pipeline.only_topic, _uncommitted(broker, pipeline, streams))
    waiting = {partition: since for partition, since in found.items() if since}
    log = LogFacts(waiting, broker.open_transactions(pipeline.only_topic), bytes_per_second)
    return [
        *broker_findings(pipeline, topic, cores),
        *log_findings(pipeline, topic, log, now),
        *of_sinks(broker, pipeline, topic),
    ]


def _uncommitted(broker: SurveyedBroker, pipeline: Pipeline, streams: Sequence[Any]) -> dict[int, int]:
    """Returns, per partition in which records wait, the offset at which the pipeline would continue.

    For a pipeline that begins at the log's start and has not begun, this is the log's start.
    """
    view = broker.view(pipeline.only_topic)
    if not streams:
        starts = {p: b.log_start for p, b in view.bounds.items() if b.log_start < b.stable_end}
        return starts if pipeline.start == "earliest" else {}
    found: dict[int, int] = {}
    for stream in streams:
        bounds = bounds_of(stream, view)
        if bounds and stream.position < bounds.stable_end:
            found[stream.partition] = max(stream.position, bounds.log_start)
    return found


def away_finding(check: Check, subject: str, refusal: Refusal) -> Finding:
    """Turns a refusal into a finding: its own words, which repeat no secret, on one line."""
    remedy = refusal.next_command or REMEDIES.get(check, "lockstep check")
    return problem(check, subject, " ".join(refusal.message.split()), WHY_UNREACHED[check], " ".join(remedy.split()))
