"""Checks that records stay long enough to be read, and that the log can be read to its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lockstep.core.health.findings import Check, Finding, Judged, problem, warning
from lockstep.core.pipeline.schedule import longest_wait
from lockstep.core.retention.limits import retention_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.health.broker_findings import TopicFacts
    from lockstep.core.pipeline.definition import Pipeline

WAITS = 3  # a run may fail, the next find the cause, the third read
LONGEST_TRANSACTION = timedelta(minutes=15)  # transaction.max.timeout.ms, where a broker does not say otherwise
LOSS = "what retention deletes before it is committed is lost, and the pipeline stops until somebody accepts that"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A partition that a transaction keeps from being read further. `since` is the timestamp of its first record."""

    partition: int
    stable_end: int
    high_watermark: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The records that wait in a topic's partitions, at the pipeline's current positions.

    `waiting` is, per partition, the timestamp of the oldest record that is not committed. `bytes_per_second` is the
    recent rate of the fastest partition, or None if no batch shows it.
    """

    waiting: dict[int, datetime]
    transactions: Sequence[OpenTransaction]
    bytes_per_second: float | None


def log_findings(pipeline: Pipeline, topic: TopicFacts, log: LogFacts, now: datetime) -> Judged:
    """Judges retention and open transactions for the pipeline."""
    wait = longest_wait(pipeline.schedule) if pipeline.schedule else None
    if topic.settings is None:
        return [schedule(pipeline), *transactions(topic, log.transactions, now)]
    return [
        schedule(pipeline),
        retention(topic, wait),
        retention_by_size(topic, wait, log.bytes_per_second),
        headroom(pipeline, topic, log, now, wait),
        *transactions(topic, log.transactions, now),
    ]


def schedule(pipeline: Pipeline) -> Finding | None:
    """Warns about a schedule whose intervals are unknown, so that retention cannot be compared with them."""
    if pipeline.schedule is None or pipeline.schedule == "@continuous" or longest_wait(pipeline.schedule):
        return None
    return warning(
        Check.SCHEDULE,
        f"pipeline {pipeline.name}",
        repr(pipeline.schedule),
        "it is no cron expression with two runs in it, so nobody can tell whether retention outlasts its intervals",
        "schedule: five cron fields such as '*/5 * * * *', a preset such as @hourly, or None",
    )


def retention(topic: TopicFacts, wait: timedelta | None) -> Finding | None:
    """Reports a retention time that deletes records before several runs could have read them."""
    kept = kept_for(topic)
    if kept is None or wait is None:
        return None
    return _short(Check.RETENTION_MS, topic, kept, wait, f"{topic.number('retention.ms')}")


def retention_by_size(topic: TopicFacts, wait: timedelta | None, bytes_per_second: float | None) -> Finding | None:
    """Reports a retention size that deletes records before several runs could have read them.

    Uses the pace of the batches that were committed.
    """
    limit = topic.number("retention.bytes")
    if limit < 0 or "delete" not in topic.word("cleanup.policy", "delete") or wait is None:
        return None
    if not bytes_per_second:
        return warning(
            Check.RETENTION_BYTES,
            f"topic {topic.topic}",
            f"{limit} for each partition",
            f"no batch tells yet how fast the log grows, so nobody knows how soon that is full; {LOSS}",
            "ask again after the first batches, or " + topic.set_to("retention.bytes=-1"),
        )
    kept = timedelta(seconds=min(limit / bytes_per_second, 10 * 366 * 86_400))
    return _short(Check.RETENTION_BYTES, topic, kept, wait, f"{limit}, at {bytes_per_second:.0f} bytes a second")


def headroom(
    pipeline: Pipeline, topic: TopicFacts, log: LogFacts, now: datetime, wait: timedelta | None
) -> Finding | None:
    """Reports that the oldest record that is not committed may soon be deleted, and in how many seconds."""
    kept = kept_for(topic)
    if kept is None or not log.waiting:
        return None
    partition, oldest = min(log.waiting.items(), key=lambda item: (item[1], item[0]))
    left = oldest - now + kept
    if left > WAITS * (wait or timedelta()):
        return None
    gone = left <= timedelta()
    return (problem if left <= (wait or timedelta()) else warning)(
        Check.HEADROOM,
        f"{topic.topic}-{partition}",
        "0 seconds: the oldest record that is not committed may be deleted at any moment"
        if gone
        else f"{left.total_seconds():.0f} seconds until the oldest record that is not committed may be deleted",
        LOSS,
        f"{topic.set_to('retention.ms=-1')}, then lockstep run {pipeline.name} --until-idle, then set it back",
    )


def transactions(topic: TopicFacts, found: Sequence[OpenTransaction], now: datetime) -> Judged:
    """Reports open transactions, because nothing behind them can be read.

    A transaction that is open longer than the broker's limit hangs.
    """
    allowed = topic.number("transaction.max.timeout.ms")
    limit = timedelta(milliseconds=allowed) if allowed > 0 else LONGEST_TRANSACTION
    return [_transaction(topic, each, now, limit) for each in found] or [None]


def kept_for(topic: TopicFacts) -> timedelta | None:
    """Returns how long the topic keeps a record by time, or None if time deletes none."""
    return retention_of(topic.settings or {}).time


def _transaction(topic: TopicFacts, found: OpenTransaction, now: datetime, limit: timedelta) -> Finding:
    age = max(timedelta(), now - found.since) if found.since else None
    hangs = age is not None and age > limit
    behind = f"{found.high_watermark - found.stable_end} offsets from {found.stable_end} on"
    return (problem if hangs else warning)(
        Check.TRANSACTION,
        f"{topic.topic}-{found.partition}",
        f"{behind}, behind a transaction open for {age.total_seconds():.0f} seconds"
        if age is not None
        else f"{behind}, behind a transaction of unknown age",
        f"older than the broker lets one be ({limit.total_seconds():.0f} seconds): it hangs, and nothing behind it is"
        " ever read"
        if hangs
        else "nothing behind an open transaction is read before it ends; while it is young, that is how it should be",
        f"kafka-transactions.sh --bootstrap-server {topic.bootstrap} abort --topic {topic.topic}"
        f" --partition {found.partition} --start-offset {found.stable_end}"
        if hangs
        else f"kafka-transactions.sh --bootstrap-server {topic.bootstrap} describe-producers --topic {topic.topic}"
        f" --partition {found.partition}",
    )


def _short(check: Check, topic: TopicFacts, kept: timedelta, wait: timedelta, found: str) -> Finding | None:
    if kept >= WAITS * wait:
        return None
    enough = f"retention.ms={int(2 * WAITS * wait / timedelta(milliseconds=1))}"
    return (problem if kept < wait else warning)(
        check,
        f"topic {topic.topic}",
        f"{found}: {kept.total_seconds():.0f} seconds, and runs are up to {wait.total_seconds():.0f} seconds apart",
        f"records must outlast {WAITS} runs, for one may fail; {LOSS}",
        topic.set_to(enough if check is Check.RETENTION_MS else "retention.bytes=-1"),
    )
