"""Checks that a topic of a feed keeps what it is given, takes every change, and keeps the relay's cursor."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.core.health.broker_findings import in_sync, replication, unclean
from lockstep.core.health.findings import Check, Finding, Judged, problem, warning
from lockstep.core.pipeline.definition import Append
from lockstep.core.pipeline.schedule import longest_wait
from lockstep.core.pipeline.targets import Send

if TYPE_CHECKING:
    from lockstep.core.health.broker_findings import TopicFacts
    from lockstep.core.pipeline.definition import Pipeline, Target

RUNS = 3  # one fails, the next finds the cause, the third sends


def sink_findings(pipeline: Pipeline, target: Target, sink: TopicFacts, source: TopicFacts) -> Judged:
    """Judges the topic that a target's feed is sent to, beside the one that the pipeline reads."""
    if sink.settings is None:
        return [replication(sink)]
    return [
        replication(sink),
        in_sync(sink),
        unclean(sink),
        _cleanup(target, sink),
        _sizes(sink, source),
        _cursor(pipeline, sink),
    ]


def _cleanup(target: Target, sink: TopicFacts) -> Finding | None:
    """Holds the cleanup policy against the records' keys and the feed's shape."""
    policy, subject = sink.word("cleanup.policy", "delete"), f"topic {sink.topic}"
    if "compact" in policy and isinstance(target, Send) and not target.key:
        return problem(
            Check.CLEANUP,
            subject,
            f"{policy}, and records without a key",
            "a compacted topic takes no record without a key: the relay stops at the first one",
            f"give the Send a key, or {sink.set_to('cleanup.policy=delete')}",
        )
    follows_keys = not isinstance(target, Append) and target.feed is not None and target.feed.to is not None
    if "compact" not in policy and follows_keys and target.feed and target.feed.to and target.feed.to.shape == "row":
        return warning(
            Check.CLEANUP,
            subject,
            policy,
            "rows of keys that change seldom go with retention: a reader that begins later does not see the whole table",
            sink.set_to("cleanup.policy=compact"),
        )
    return None


def _sizes(sink: TopicFacts, source: TopicFacts) -> Finding | None:
    """Warns if a record that the source takes may be too large for the sink. The relay then stops at it."""
    most, given = sink.number("max.message.bytes"), source.number("max.message.bytes")
    if most < 0 or given <= most:
        return None
    return warning(
        Check.MESSAGE_BYTES,
        f"topic {sink.topic}",
        f"{most}, and {source.topic} takes {given}",
        "a record may come that is too large to be sent: the relay stops there, and nothing is left out",
        sink.set_to(f"max.message.bytes={given}"),
    )


def _cursor(pipeline: Pipeline, sink: TopicFacts) -> Finding | None:
    """Warns if the broker forgets the relay's cursor before some runs of the schedule have gone by."""
    minutes = sink.number("offsets.retention.minutes")
    wait = longest_wait(pipeline.schedule) if pipeline.schedule else None
    if minutes < 0 or wait is None or timedelta(minutes=minutes) >= RUNS * wait:
        return None
    return warning(
        Check.OFFSETS_RETENTION,
        f"topic {sink.topic}",
        f"{minutes} minutes, and the schedule waits for {wait}",
        "the relay's cursor expires when nothing is sent for so long: the topic is then searched, or a person asked",
        "set offsets.retention.minutes of the brokers to 10080 or more",
    )
