"""Makes one decision from what the ledger and the broker say. Has no side effects and no clock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lockstep.core.offsets import OffsetRange, StreamRange
from lockstep.core.planning.batch_size import because, budget
from lockstep.core.planning.blocked import (
    another_log,
    changed_definition,
    lost,
    topic_gone,
    topic_left_out,
    unreadable_log,
)
from lockstep.core.planning.decisions import Blocked, Busy, Done, Idle, Resume, Start, go_on_command
from lockstep.core.states import BatchState

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from lockstep.core.offsets import LogView, Stream
    from lockstep.core.pipeline.definition import Limits, Pipeline
    from lockstep.core.planning.decisions import Caller, Decision, Situation, Unfinished

FAILURES_THAT_BLOCK = 3
K = TypeVar("K", bound="Hashable")


def decide(pipeline: Pipeline, situation: Situation, caller: Caller) -> Decision:
    """Returns the decision for this caller now."""
    if situation.call and situation.call.state == BatchState.COMMITTED:
        return Done(situation.call.batch_id)
    if situation.unfinished:
        return about_unfinished(pipeline, situation, situation.unfinished, caller)
    if situation.pause:
        return Idle(situation.pause)
    left_out = topic_left_out(pipeline, situation.streams)
    gone = None if isinstance(pipeline.topic, str) else topic_gone(pipeline.name, situation.streams, situation.view)
    situation = without_gone_topics(situation) if gone else situation
    blocked = (
        situation.not_deployed
        or changed_definition(pipeline, situation.bound_by)
        or left_out
        or another_log(pipeline.name, situation.streams, situation.view)
        or situation.broken
        or lost(pipeline, situation)
        or situation.refused_topic
    )
    if blocked:
        return blocked
    ranges = live_ranges(pipeline.limits, situation)
    if not ranges:
        return gone or Idle("every position stands at the log's stable end")
    waiting = sum(waiting_offsets(stream, situation.view) for stream in situation.streams)
    return Start(ranges, because=because(pipeline.limits, situation.pace, ranges, waiting))


def without_gone_topics(situation: Situation) -> Situation:
    """Returns the situation without the streams whose topic is gone. They alone wait for a person."""
    there = tuple(s for s in situation.streams if situation.view.log_of(s.topic_partition.topic))
    return replace(situation, streams=there)


def live_ranges(limits: Limits, situation: Situation) -> tuple[StreamRange, ...]:
    """Returns what the limits allow from every position on, fair over the partitions. No range is empty."""
    available = {}
    for stream in situation.streams:
        span = waiting_offsets(stream, situation.view)
        available[stream] = min(span, limits.per_partition or span)
    shares = fair_shares(available, budget(limits, situation.pace))
    return tuple(
        StreamRange(s.stream_id, OffsetRange(s.topic_partition, s.position, s.position + share))
        for s, share in shares.items()
        if share
    )


def waiting_offsets(stream: Stream, view: LogView) -> int:
    """Returns how many offsets can be read from the stream's position on."""
    return max(0, view[stream.topic_partition].readable_until(stream.position) - stream.position)


def fair_shares(available: Mapping[K, int], total: int) -> dict[K, int]:
    """Splits `total` so that no key gets more than it has. None could get more without another getting less."""
    shares = dict.fromkeys(available, 0)
    left = total
    hungry = sorted(available, key=lambda key: available[key])  # stable: equal ones stay in the caller's order
    for served, key in enumerate(hungry):
        others = len(hungry) - served
        shares[key] = min(available[key], -(-left // others))
        left -= shares[key]
    return shares


class UnfinishedFacts(Protocol):
    """The facts around an unfinished batch, whatever its lane."""

    @property
    def view(self) -> LogView:
        """Returns the broker's bounds."""

    @property
    def broken(self) -> Blocked | None:
        """Returns the answer for a log that lost its end. Below the position stand other records, now or soon."""

    @property
    def not_deployed(self) -> Blocked | None:
        """Returns the answer for a folder whose transform is not the promoted one."""

    @property
    def failures(self) -> tuple[int, str | None]:
        """Returns how often data or code made it fail under today's definition, and the last error."""

    @property
    def bound_by(self) -> tuple[Mapping[str, Any], ...]:
        """Returns the definitions that today's definition must agree with."""


def about_unfinished(pipeline: Pipeline, known: UnfinishedFacts, batch: Unfinished, caller: Caller) -> Decision:
    """Returns Resume, unless another caller holds the batch, it cannot be read, or it failed too often."""
    mine = batch.owner == caller.owner or (caller.key is not None and batch.is_callers)
    if batch.lease_is_live and not mine and not caller.take_over:
        return Busy(
            batch.batch_id, f"batch {batch.batch_id} is held by {batch.owner} until {batch.lease_until:%H:%M:%S} UTC"
        )
    changed = (
        known.not_deployed
        or changed_definition(pipeline, known.bound_by, batch)
        or unreadable_log(pipeline, known.view, batch)
        or known.broken
    )
    if changed:
        return changed
    times, error = known.failures
    if times >= FAILURES_THAT_BLOCK and not caller.retry:
        again = go_on_command(pipeline.name, batch.lane, batch.request_id)
        facts = (error or "").partition("  Next: ")[0]  # a message has one next command
        return Blocked(
            f"{pipeline.name}: batch {batch.batch_id} failed {times} times by data or code: {facts}",
            f"mend it, then: {again} --retry",
        )
    return Resume(batch.batch_id)
