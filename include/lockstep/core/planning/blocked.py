"""Finds what blocks a plan: a definition, a log or offsets that are not what was committed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockstep.core.feed.feeds import with_feeds_of
from lockstep.core.pipeline.targets import Windows
from lockstep.core.planning.decisions import Blocked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lockstep.core.offsets import Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.planning.decisions import Situation, Unfinished

_PARTS = ("topic", "target", "guarantee", "store")
_CLOCK = "event time's column"
_ORDER = "order of changes"
TUNING = ("order_by", "transform", "shared_with", "lateness", "max_late_share")


def changed_definition(
    pipeline: Pipeline, bound_by: Iterable[Mapping[str, Any]], unfinished: Unfinished | None = None
) -> Blocked | None:
    """Returns Blocked if topic, target, guarantee, store or what orders its records is not the one committed so far (T8)."""
    now = _ordered(pipeline.document())
    for document in (_ordered(with_feeds_of(earlier, now)) for earlier in bound_by):
        for part in (*_PARTS, _CLOCK, _ORDER):
            if _essence(document.get(part)) != _essence(now.get(part)):
                copy = f"lockstep clone {pipeline.name} --to ANOTHER_NAME"
                remedy = "lockstep new ANOTHER_NAME --topic TOPIC" if part == "topic" else copy
                if unfinished:
                    remedy = f"lockstep abandon {unfinished.batch_id} --reason ..., then {remedy}"
                return Blocked(
                    f"{pipeline.name}: its {part} was {_words(_essence(document.get(part)))} and is now "
                    f"{_words(_essence(now.get(part)))}; a pipeline keeps its {part} for good",
                    f"put it back, or {remedy}",
                )
    return None


def _ordered(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the document with the column that its windows go by, and the order of its change records.

    Windows of two clocks would count in the same rows, and rows of two orders could not be compared.
    """
    targets = document.get("target")
    kinds = {each.get("kind") for each in (targets if isinstance(targets, list | tuple) else [targets or {}])}
    column = (document.get("event_time") or {}).get("column")
    order = (document.get("format") or {}).get("order")
    return {**document, _CLOCK: column if Windows.__name__ in kinds else None, _ORDER: order or "log"}


def _essence(part: Any) -> Any:
    """Returns the parts of a definition that must not change: kind, table and key of each target.

    Leaves out the tuning and the code.
    """
    if isinstance(part, list):
        return [_essence(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in part.items() if name not in TUNING
    }


def _words(part: Any) -> str:
    """Returns a part in the words of a definition, such as `Upsert(table=public.orders, key=(order_id))`."""
    if isinstance(part, dict):
        rest = ", ".join(f"{k}={_words(v)}" for k, v in sorted(part.items()) if k != "kind" and v is not None)
        return f"{part.get('kind', '')}({rest})"
    return f"({', '.join(map(_words, part))})" if isinstance(part, list) else str(part)


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


def lost(pipeline: Pipeline, situation: Situation) -> Blocked | None:
    """Returns Blocked for a stream whose next offsets the log does not have any more, or not yet again."""
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


def unreadable_log(pipeline: Pipeline, view: TopicView, batch: Unfinished) -> Blocked | None:
    """Returns Blocked for an unfinished batch whose ranges the log does not hold as they were planned."""
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
