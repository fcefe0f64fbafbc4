"""Reads several topics of a cluster at once: one call asks for all their ids, and one for all bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec

from lockstep.adapters.kafka import client
from lockstep.adapters.kafka.client import Client
from lockstep.adapters.kafka.epochs import epoch_of
from lockstep.adapters.kafka.reading import moment_of_stamp, stamp_of_moment
from lockstep.core.errors import Refusal
from lockstep.core.offsets import Bounds, LogView, TopicView, TopicViews
from lockstep.core.offsets import TopicPartition as LogPartition
from lockstep.core.pipeline.names import reads_topic
from lockstep.core.retention.limits import retention_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.pipeline.definition import Pipeline


def read_topics(broker: Broker, pipeline: Pipeline) -> LogView:
    """Reads the topics that a pipeline reads, as they are now.

    Raises `Refusal` if its one topic is not there, and if more topics match than its limit allows. Of several topics,
    those that are not there have no view.
    """
    source = pipeline.topic
    if isinstance(source, str):
        return broker.view(source)
    if isinstance(source, tuple):
        return broker.topic_views(source)
    found = [name for name in broker.topic_names() if reads_topic(source, name)]
    if len(found) > source.limit:
        raise Refusal(
            f"{pipeline.name}: {len(found)} topics match {source.pattern!r}, and topic.limit is {source.limit}",
            next_command=f"raise the limit or narrow the pattern, then lockstep plan {pipeline.name}",
        )
    return broker.topic_views(found)


def ends_of(broker: Broker, seen: LogView) -> dict[LogPartition, int]:
    """Returns the offset behind the last record of each partition, even if its transaction is still open."""
    if isinstance(seen, TopicView):
        return {LogPartition(seen.topic, partition): end for partition, end in broker.high_ends(seen).items()}
    return broker.high_ends_of(seen)


def first_of(broker: Broker, seen: LogView, moment: datetime) -> dict[LogPartition, tuple[int, datetime | None]]:
    """Returns the first offset of each partition at or past a moment, with its record's time.

    Without one, returns the stable end and None.
    """
    if isinstance(seen, TopicView):
        found = broker.first_at(seen, moment)
        return {LogPartition(seen.topic, partition): first for partition, first in found.items()}
    return broker.first_at_of(seen, moment)


def times_of(
    broker: Broker, seen: LogView, at: Mapping[LogPartition, int], *, committed: bool = True
) -> dict[LogPartition, datetime | None]:
    """Returns the time of the first record at or past each offset, or None if none is there. Omits late answers."""
    if not at:
        return {}
    if isinstance(seen, TopicView):
        found = broker.first_times(seen.topic, {w.partition: offset for w, offset in at.items()}, committed=committed)
        return {LogPartition(seen.topic, partition): moment for partition, moment in found.items()}
    return broker.first_times_of(at, committed=committed)


def retention_of_topics(broker: Broker, seen: LogView) -> dict[str, timedelta | None]:
    """Returns each topic's retention time. It is None if time deletes no records, or if the login may not read it."""
    if isinstance(seen, TopicView):
        return {seen.topic: broker.retention(seen.topic)}
    return broker.retentions([each.topic for each in seen.topics])


class TopicsClient(Client):
    """A client that asks about several topics at once, however many they are."""

    def topic_names(self) -> list[str]:
        """Returns the names of the topics that the login may see."""
        try:
            return sorted(self._client().list_topics(timeout=client.ANSWER_SECONDS).topics)
        except KafkaException as error:
            raise self._away(error) from None

    def topic_views(self, names: Iterable[str], *, only_readable: bool = False) -> TopicViews:
        """Reads cluster id, topic ids and all bounds of these topics. Leaves out topics that do not exist.

        With `only_readable`, also leaves out topics that the login may not describe, and those without all leaders.
        """
        try:
            cluster_asked = self._client().describe_cluster(request_timeout=client.ANSWER_SECONDS)
            found = self._identities(sorted(names), only_readable=only_readable)
            cluster = cluster_asked.result(client.ANSWER_SECONDS + client.GRACE).cluster_id
            bounds = self._bounds([TopicPartition(name, p) for name, (_, parts) in found.items() for p in parts])
        except KafkaException as error:
            raise self._away(error) from None
        return TopicViews(
            cluster, tuple(TopicView(cluster, name, id_, bounds[name]) for name, (id_, _) in found.items())
        )

    def first_at_of(self, seen: LogView, moment: datetime) -> dict[LogPartition, tuple[int, datetime | None]]:
        """Returns the answers of `first_of` from the cluster. All questions are sent at once."""
        at = seen.partitions
        asked = [TopicPartition(each.topic, each.partition) for each in at]
        stamp = OffsetSpec.for_timestamp(stamp_of_moment(moment))
        try:
            (found,) = self._answers(asked, stamp) if asked else [{}]
        except KafkaException as error:
            raise self._away(error) from None
        firsts = {each: found[each.topic, each.partition] for each in at}
        return {
            each: (firsts[each].offset, moment_of_stamp(firsts[each].timestamp))
            if 0 <= firsts[each].offset < bounds.stable_end
            else (bounds.stable_end, None)
            for each, bounds in at.items()
        }

    def high_ends_of(self, seen: TopicViews) -> dict[LogPartition, int]:
        """Returns the offset behind the last record of each partition, even if its transaction is still open."""
        asked = [TopicPartition(each.topic, p) for each in seen.topics for p in each.bounds]
        try:
            (last,) = (
                self._answers(asked, OffsetSpec.latest(), isolation=IsolationLevel.READ_UNCOMMITTED) if asked else [{}]
            )
        except KafkaException as error:
            raise self._away(error) from None
        return {LogPartition(*where): end.offset for where, end in last.items()}

    def retentions(self, topics: Iterable[str]) -> dict[str, timedelta | None]:
        """Returns each topic's retention time. It is None if it deletes nothing, or if the login may not read it."""
        asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        found = self._client().describe_configs(asked, request_timeout=client.ANSWER_SECONDS) if asked else {}
        kept: dict[str, timedelta | None] = {}
        for resource, future in found.items():
            try:
                settings = {e.name: e.value for e in future.result(client.ANSWER_SECONDS + client.GRACE).values()}
                kept[resource.name] = retention_of(settings).time
            except KafkaException as error:
                if error.args[0].code() not in {*client.FORBIDDEN, KafkaError.UNKNOWN_TOPIC_OR_PART}:
                    raise self._away(error) from None
                kept[resource.name] = None
        return kept

    def _identities(self, names: list[str], *, only_readable: bool) -> dict[str, tuple[str, list[int]]]:
        """Returns the id and the partitions of each topic that exists."""
        left_out = {KafkaError.UNKNOWN_TOPIC_OR_PART, *(client.FORBIDDEN if only_readable else ())}
        if not names:
            return {}
        asked = self._client().describe_topics(TopicCollection(names), request_timeout=client.ANSWER_SECONDS)
        found = {}
        for name in names:
            try:
                topic = asked[name].result(client.ANSWER_SECONDS + client.GRACE)
            except KafkaException as error:
                if error.args[0].code() not in left_out:
                    raise
            else:
                if only_readable and any(part.leader is None for part in topic.partitions):
                    continue
                found[name] = (str(topic.topic_id), sorted(part.id for part in topic.partitions))
        return found

    def _bounds(self, partitions: list[TopicPartition]) -> dict[str, dict[int, Bounds]]:
        found: dict[str, dict[int, Bounds]] = {}
        if partitions:
            first, last = self._answers(partitions, OffsetSpec.earliest(), OffsetSpec.latest())
            for (topic, partition), end in last.items():
                bounds = Bounds(min(first[topic, partition].offset, end.offset), end.offset, epoch_of(end.leader_epoch))
                found.setdefault(topic, {})[partition] = bounds
        return found
