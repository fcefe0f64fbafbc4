"""Finds what blocks a plan: a definition, a log or offsets that are not what was committed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockstep.core.feed.feeds import with_feeds_of
from lockstep.core.pipeline.names import READ_NEW, REFUSE_NEW, Topics, reads_topic, topic_words
from lockstep.core.pipeline.targets import Windows
from lockstep.core.planning.decisions import Blocked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lockstep.core.offsets import LogView, Stream, TopicPartition
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
            if part == "topic" and not (isinstance(pipeline.topic, str) and isinstance(document.get(part), str)):
                continue  # its streams name its topics
            if _essence(document.get(part)) != _essence(now.get(part)):
                copy = f"lockstep clone {pipeline.name} --to ANOTHER_NAME"
                move = f"lockstep move {pipeline.name} --to-topic {pipeline.topic} if that is a copy"
                remedy = f"{move}, or lockstep new ANOTHER_NAME --topic TOPIC" if part == "topic" else copy
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


def topic_left_out(pipeline: Pipeline, streams: Iterable[Stream]) -> Blocked | None:
    """Returns Blocked for a stream of a topic that the definition does not name any more. It waits for `retire`."""
    for stream in streams:
        topic = stream.topic_partition.topic
        if not reads_topic(pipeline.topic, topic):
            return Blocked(
                f"{stream.topic_partition}: the definition does not name topic {topic} any more, it says "
                f"{topic_words(pipeline.topic)}; the position is {stream.position}",
                f"put it back, or lockstep retire {pipeline.name} --topic {topic} --reason ...",
            )
    return None


def topic_refused(pipeline: Pipeline, topics: Iterable[str]) -> Blocked | None:
    """Returns Blocked for the first of these topics, which have appeared, if the definition refuses such."""
    source, topic = pipeline.topic, next(iter(topics), None)
    if topic is None or not isinstance(source, Topics) or source.new != REFUSE_NEW:
        return None
    return Blocked(
        f"{pipeline.name}: topic {topic} has appeared and matches {source.pattern!r}, and topic.new is {REFUSE_NEW!r}",
        f"say new={READ_NEW!r} or leave it out of the pattern, then lockstep plan {pipeline.name}",
        readings=2,
    )


def topic_moved(name: str, left: Mapping[str, str]) -> Blocked | None:
    """Returns Blocked for a topic that a move has left. Its records are those of the topic that took its place."""
    for topic, now in left.items():
        return Blocked(
            f"{name}: it moved from {topic} to {now}, which holds the same records, and the definition names {topic} again",
            f"leave {topic} out of the definition, then lockstep plan {name}",
        )
    return None


def topic_gone(name: str, streams: Iterable[Stream], view: LogView) -> Blocked | None:
    """Returns Blocked for a stream whose topic is not on the broker, among several topics. It waits for `retire`."""
    for stream in streams:
        topic = stream.topic_partition.topic
        if view.log_of(topic) is None:
            return Blocked(
                f"{stream.topic_partition}: topic {topic} is gone; the position is {stream.position}. Its other topics go on",
                f"lockstep retire {name} --topic {topic} --reason ...",
                readings=2,
            )
    return None


def another_log(name: str, streams: Iterable[Stream], view: LogView) -> Blocked | None:
    """Returns Blocked for a stream of another cluster, another topic of this name, or a partition that is gone.

    Such streams wait for `retire`.
    """
    for stream in streams:
        was, seen = (stream.cluster_id, stream.topic_id), view.log_of(stream.topic_partition.topic)
        found = (seen[0], seen[2]) if seen else (view.cluster_id, None)
        option = view.option(stream.topic_partition.topic)
        if was != found:
            what = "cluster" if was[0] != found[0] else "topic"
            retire = f"lockstep retire {name}{option} --reason ..."
            return Blocked(
                f"{stream.topic_partition}: the {what} is not the same any more (id {was[what == 'topic']}, "
                f"now {found[what == 'topic']}); position {stream.position} means nothing there",
                retire
                if what == "topic"
                else f"let LOCKSTEP_KAFKA lead to cluster {was[0]}, or if that is gone, {retire}",
            )
        if view.get(stream.topic_partition) is None:
            return Blocked(
                f"{stream.topic_partition}: the partition is gone; its position is {stream.position}",
                f"lockstep retire {name}{option} --partition {stream.partition} --reason ...",
            )
    return None


def truncated(name: str, streams: Iterable[Stream], view: LogView) -> Blocked | None:
    """Returns Blocked for a stream whose log ends below the position. It waits for `retire`."""
    for stream in streams:
        bounds, option = view.get(stream.topic_partition), view.option(stream.topic_partition.topic)
        if bounds is not None and bounds.stable_end < stream.position:
            return Blocked(
                f"{stream.topic_partition}: the log was truncated: it ends at {bounds.stable_end}, "
                f"and everything below {stream.position} was committed",
                f"lockstep retire {name}{option} --partition {stream.partition} --reason ...",
                readings=3,
            )
    return None


def lost(pipeline: Pipeline, situation: Situation) -> Blocked | None:
    """Returns Blocked for a stream whose next offsets the log does not have any more, or not yet again."""
    for stream in situation.streams:
        bounds = situation.view[stream.topic_partition]
        if short := truncated(pipeline.name, [stream], situation.view):
            return short
        gap = bounds.gap(stream.position)
        if gap and gap[0] == stream.position:
            loss = _loss(pipeline.name, situation.view, stream.topic_partition, gap, bounds.log_start)
            if stream.leader_epoch is None or bounds.leader_epoch in {None, stream.leader_epoch}:
                return loss
            return replace(
                loss,
                reason=f"{loss.reason}. The leader changed since, and no record below {stream.position} is left "
                "that tells whether others were replaced unread",
            )
    return None


def unreadable_log(pipeline: Pipeline, view: LogView, batch: Unfinished) -> Blocked | None:
    """Returns Blocked for an unfinished batch whose ranges the log does not hold as they were planned."""
    for item in batch.ranges:
        where = item.offsets.topic_partition
        planned, seen = batch.log_of(where.topic), view.log_of(where.topic)
        if planned and planned != seen:
            what, was, now = "topic", planned[2], seen[2] if seen else "gone"
            if planned[0] != view.cluster_id:
                what, was, now = "cluster", planned[0], view.cluster_id
            ranges = ", ".join(str(i.offsets) for i in batch.ranges if i.offsets.topic_partition.topic == where.topic)
            return Blocked(
                f"{ranges}: batch {batch.batch_id} was planned on {what} id {was}, and the {what} id is now {now}",
                f"lockstep retire {pipeline.name}{view.option(where.topic)} --reason ...",
            )
        bounds = view.get(where)
        if bounds is None or bounds.stable_end < item.offsets.until_offset:
            ends = "is gone" if bounds is None else f"ends at {bounds.stable_end}"
            return Blocked(
                f"{item.offsets}: batch {batch.batch_id} cannot be read: the log {ends}",
                f"lockstep retire {pipeline.name}{view.option(where.topic)} --partition {where.partition} --reason ...",
                readings=3,
            )
        gap = bounds.gap(item.offsets.from_offset)
        if gap and gap[0] == item.offsets.from_offset:
            return _loss(pipeline.name, view, where, gap, bounds.log_start)
        if gap and gap[0] < item.offsets.until_offset:  # the archive holds its beginning alone
            return Blocked(
                f"{item.offsets}: offsets [{gap[0]}, {gap[1]}) of batch {batch.batch_id} were deleted and are not archived",
                f"lockstep abandon {batch.batch_id} --reason ...",
                readings=2,
            )
    return None


def _loss(name: str, view: LogView, where: TopicPartition, gap: tuple[int, int], log_start: int) -> Blocked:
    begin, end = gap
    archived = f", and the archive goes on at {end}" if end < log_start else ""
    option = f"{view.option(where.topic)} --partition {where.partition}"
    return Blocked(
        f"{where}: offsets [{begin}, {end}) were deleted before they were committed; "
        f"the log now starts at {log_start}{archived}",
        f"lockstep accept-loss {name}{option} --from {begin} --until {end} --reason ...",
        readings=2,
    )


def has_new_epoch(stream: Stream, view: LogView) -> bool:
    """Returns True if the stream's log has another leader epoch by now than a plan has seen last."""
    bounds = view.get(stream.topic_partition)
    return (
        stream.log == view.log_of(stream.topic_partition.topic)
        and bounds is not None
        and bounds.leader_epoch not in {None, stream.leader_epoch}
    )
