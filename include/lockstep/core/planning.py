"""Makes one decision from what the ledger and the broker say. Has no side effects and no clock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lockstep.core.decisions import Blocked, Busy, Done, Idle, Resume, Start
from lockstep.core.offsets import OffsetRange, StreamRange

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from lockstep.core.decisions import Caller, Decision, Pace, Situation, Unfinished
    from lockstep.core.definition import Limits, Pipeline
    from lockstep.core.offsets import Stream, TopicView

FAILURES_THAT_BLOCK = 3
TUNING = ("order_by", "transform", "shared_with")
K = TypeVar("K", bound="Hashable")


def decide(pipeline: Pipeline, situation: Situation, caller: Caller) -> Decision:
    """Returns the decision for this caller now."""
    if situation.call and situation.call.state == "committed":
        return Done(situation.call.batch_id)
    if situation.unfinished:
        return about_unfinished(pipeline, situation, situation.unfinished, caller)
    if situation.pause:
        return Idle(situation.pause)
    blocked = (
        changed_definition(pipeline, situation.bound_by)
        or another_log(pipeline.name, situation.streams, situation.view)
        or situation.broken
        or _lost(pipeline, situation)
    )
    if blocked:
        return blocked
    ranges = live_ranges(pipeline.limits, situation)
    return Start(ranges) if ranges else Idle("every position stands at the log's stable end")


def live_ranges(limits: Limits, situation: Situation) -> tuple[StreamRange, ...]:
    """Returns the ranges from every position towards the stable end, as much as the limits allow.

    They are fair over the partitions. None is empty.
    """
    available = {}
    for stream in situation.streams:
        span = situation.view.bounds[stream.partition].stable_end - stream.position
        available[stream] = max(0, min(span, limits.per_partition or span))
    shares = fair_shares(available, budget(limits, situation.pace))
    return tuple(
        StreamRange(s.stream_id, OffsetRange(s.topic_partition, s.position, s.position + share))
        for s, share in shares.items()
        if share
    )


def budget(limits: Limits, pace: Pace) -> int:
    """Returns how many offsets the next batch may span: the tightest of records, seconds and bytes, at least one."""
    caps = [float(limits.records)]
    if limits.seconds and pace.offsets_per_second:
        caps.append(limits.seconds * pace.offsets_per_second)
    if limits.bytes and pace.bytes_per_offset:
        caps.append(limits.bytes / pace.bytes_per_offset)
    return max(1, int(min(caps)))


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


class Known(Protocol):
    """The facts around an unfinished batch, whatever its lane."""

    @property
    def view(self) -> TopicView:
        """Returns the broker's bounds."""

    @property
    def broken(self) -> Blocked | None:
        """Returns the answer for a log that lost its end. Below the position stand other records, now or soon."""

    @property
    def failures(self) -> tuple[int, str | None]:
        """Returns how often data or code made it fail under today's definition, and the last error."""

    @property
    def bound_by(self) -> tuple[Mapping[str, Any], ...]:
        """Returns the definitions that today's definition must agree with."""


def about_unfinished(pipeline: Pipeline, known: Known, batch: Unfinished, caller: Caller) -> Decision:
    """Returns Resume, unless another caller holds the batch, it cannot be read, or it failed too often."""
    mine = batch.owner == caller.owner or (caller.key is not None and batch.is_callers)
    if batch.lease_is_live and not mine and not caller.take_over:
        return Busy(
            batch.batch_id, f"batch {batch.batch_id} is held by {batch.owner} until {batch.lease_until:%H:%M:%S} UTC"
        )
    changed = (
        changed_definition(pipeline, known.bound_by, batch) or _unreadable(pipeline, known.view, batch) or known.broken
    )
    if changed:
        return changed
    times, error = known.failures
    if times >= FAILURES_THAT_BLOCK and not caller.retry:
        again = f"lockstep {'run' if batch.request_id is None else batch.lane} {pipeline.name}"
        again += "" if batch.request_id is None else f" --request {batch.request_id}"
        return Blocked(
            f"{pipeline.name}: batch {batch.batch_id} failed {times} times by data or code: {error}",
            f"mend it, then: {again} --retry",
        )
    return Resume(batch.batch_id)


def changed_definition(
    pipeline: Pipeline, bound_by: Iterable[Mapping[str, Any]], unfinished: Unfinished | None = None
) -> Blocked | None:
    """Returns Blocked if topic, target, guarantee or store is not the one that was committed so far (T8)."""
    now = pipeline.document()
    for document in bound_by:
        for part in ("topic", "target", "guarantee", "store"):
            if _essence(document.get(part)) != _essence(now.get(part)):
                remedy = "lockstep new ANOTHER_NAME"
                if unfinished:
                    remedy = f"lockstep abandon {unfinished.batch_id} --reason ..., then {remedy}"
                return Blocked(
                    f"{pipeline.name}: its {part} was {_essence(document.get(part))} and is now {_essence(now.get(part))}; "
                    "a pipeline keeps both for good",
                    f"put it back, or {remedy}",
                )
    return None


def _essence(part: Any) -> Any:
    """Returns the parts of a definition that must not change: kind, table and key of each target.

    Leaves out the tuning and the code.
    """
    if isinstance(part, list):
        return [_essence(each) for each in part]
    return {k: _plain(v) for k, v in part.items() if k not in TUNING} if isinstance(part, dict) else part


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def another_log(name: str, streams: Iterable[Stream], view: TopicView) -> Blocked | None:
    """Returns Blocked for a stream of another cluster, another topic of this name, or a partition that is gone.

    Such streams wait for `retire`.
    """
    for stream in streams:
        was, found = (stream.cluster_id, stream.topic_id), (view.cluster_id, view.topic_id)
        if was != found:
            what = "cluster" if was[0] != found[0] else "topic"
            return Blocked(
                f"{stream.topic_partition}: the {what} is not the same any more (id {was[what == 'topic']}, "
                f"now {found[what == 'topic']}); position {stream.position} means nothing there",
                f"lockstep retire {name} --reason ...",
            )
        if stream.partition not in view.bounds:
            return Blocked(
                f"{stream.topic_partition}: the partition is gone; its position is {stream.position}",
                f"lockstep retire {name} --partition {stream.partition} --reason ...",
            )
    return None


def truncated(name: str, streams: Iterable[Stream], view: TopicView) -> Blocked | None:
    """Returns Blocked for a stream whose log ends below the position. It waits for `retire`."""
    for stream in streams:
        bounds = view.bounds.get(stream.partition)
        if bounds is not None and bounds.stable_end < stream.position:
            return Blocked(
                f"{stream.topic_partition}: the log was truncated: it ends at {bounds.stable_end}, "
                f"and everything below {stream.position} was committed",
                f"lockstep retire {name} --partition {stream.partition} --reason ...",
                readings=3,
            )
    return None


def _lost(pipeline: Pipeline, situation: Situation) -> Blocked | None:
    for stream in situation.streams:
        bounds = situation.view.bounds[stream.partition]
        if short := truncated(pipeline.name, [stream], situation.view):
            return short
        if bounds.log_start > stream.position:
            where = str(stream.topic_partition)
            loss = _loss(pipeline.name, stream.partition, where, stream.position, bounds.log_start)
            if stream.leader_epoch is None or bounds.leader_epoch in {None, stream.leader_epoch}:
                return loss
            return replace(
                loss,
                reason=f"{loss.reason}. The leader changed since, and no record below {stream.position} is left "
                "that tells whether others were replaced unread",
            )
    return None


def _unreadable(pipeline: Pipeline, view: TopicView, batch: Unfinished) -> Blocked | None:
    if batch.log and batch.log != (view.cluster_id, view.topic, view.topic_id):
        what, was, now = "topic", batch.log[2], view.topic_id
        if batch.log[0] != view.cluster_id:
            what, was, now = "cluster", batch.log[0], view.cluster_id
        ranges = ", ".join(str(item.offsets) for item in batch.ranges)
        return Blocked(
            f"{ranges}: batch {batch.batch_id} was planned on {what} id {was}, and the {what} id is now {now}",
            f"lockstep retire {pipeline.name} --reason ...",
        )
    for item in batch.ranges:
        partition = item.offsets.topic_partition.partition
        bounds = view.bounds.get(partition)
        if bounds is None or bounds.stable_end < item.offsets.until_offset:
            ends = "is gone" if bounds is None else f"ends at {bounds.stable_end}"
            return Blocked(
                f"{item.offsets}: batch {batch.batch_id} cannot be read: the log {ends}",
                f"lockstep retire {pipeline.name} --partition {partition} --reason ...",
                readings=3,
            )
        if bounds.log_start > item.offsets.from_offset:
            where = str(item.offsets.topic_partition)
            return _loss(pipeline.name, partition, where, item.offsets.from_offset, bounds.log_start)
    return None


def _loss(name: str, partition: int, where: str, position: int, log_start: int) -> Blocked:
    return Blocked(
        f"{where}: offsets [{position}, {log_start}) were deleted before they were committed; "
        f"the log now starts at {log_start}",
        f"lockstep accept-loss {name} --partition {partition} --from {position} --until {log_start} --reason ...",
        readings=2,
    )
