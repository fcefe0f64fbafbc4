"""Reads a topic's identity, its bounds for a `read_committed` reader, its records, and the offsets of times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec

from lockstep.adapters.kafka import client
from lockstep.adapters.kafka.epochs import epoch_of
from lockstep.adapters.kafka.group import show_forward
from lockstep.adapters.kafka.reading import (
    MOST_FETCHED_BYTES,
    Fetched,
    closing_soon,
    first_stamps,
    is_past,
    moment_of_stamp,
    refuse_malformed,
)
from lockstep.adapters.kafka.topics import TopicsClient
from lockstep.core.errors import Unreachable
from lockstep.core.offsets import Bounds, TopicView
from lockstep.core.offsets import TopicPartition as LogPartition
from lockstep.core.retention.limits import retention_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta

    from lockstep.core.kafka_options import KafkaOptions
    from lockstep.core.retention.limits import Retention

RECORDS_AT_ONCE = 10_000
GLANCE = {"fetch.message.max.bytes": 16_384, "queued.min.messages": 1}  # one record of each partition is wanted
GLANCE_SECONDS = 5.0
SECONDS_A_LOOK = 0.2


class Broker(TopicsClient):
    """A cluster as the steps ask it: bounds, times, settings and records of a topic."""

    def __reduce__(self) -> tuple[type[Broker], tuple[str, KafkaOptions]]:
        """Pickles the address alone, for executors. Connections stay behind."""
        return Broker, (self.bootstrap, self.options)

    def view(self, topic: str) -> TopicView:
        """Reads cluster id, topic id and every partition's bounds now.

        Raises `Refusal` if the topic does not exist and `Unreachable` if the cluster does not answer.
        """
        try:
            cluster_asked = self._client().describe_cluster(request_timeout=client.ANSWER_SECONDS)
            described = self._describe(topic)
            cluster = cluster_asked.result(client.ANSWER_SECONDS + client.GRACE)
            partitions = [TopicPartition(topic, part.id) for part in described.partitions]
            first, last = self._listed(partitions, OffsetSpec.earliest(), OffsetSpec.latest())
        except KafkaException as error:
            raise self._away(error) from None
        bounds = {
            p: Bounds(min(first[p].offset, end.offset), end.offset, epoch_of(end.leader_epoch))
            for p, end in sorted(last.items())
        }
        return TopicView(cluster.cluster_id, topic, str(described.topic_id), bounds)

    def offsets_at(self, view: TopicView, moment: datetime) -> dict[int, int]:
        """Returns, per partition, the first offset with a timestamp at or past the moment, else the stable end."""
        return {partition: offset for partition, (offset, _) in self.first_at(view, moment).items()}

    def first_at(self, view: TopicView, moment: datetime) -> dict[int, tuple[int, datetime | None]]:
        """Returns the offsets of `offsets_at` with their records' times. The time is None at the stable end."""
        return {where.partition: first for where, first in self.first_at_of(view, moment).items()}

    def high_ends(self, view: TopicView) -> dict[int, int]:
        """Returns, per partition, the offset behind the last record, even if its transaction is still open."""
        try:
            return self._ends(view.topic, view.bounds, IsolationLevel.READ_UNCOMMITTED)
        except KafkaException as error:
            raise self._away(error) from None

    def first_times(self, topic: str, at: Mapping[int, int], *, committed: bool = True) -> dict[int, datetime | None]:
        """Returns, per partition, the time of the first record at or past an offset, or None if none is there.

        Omits late answers, and records without a time.
        """
        found = self.first_times_of({LogPartition(topic, p): offset for p, offset in at.items()}, committed=committed)
        return {where.partition: moment for where, moment in found.items()}

    def first_times_of(
        self, at: Mapping[LogPartition, int], *, committed: bool = True
    ) -> dict[LogPartition, datetime | None]:
        """Returns the times of `first_times` for partitions of several topics."""
        if not at:
            return {}
        try:
            with closing_soon(self._reader(committed=committed, **GLANCE)) as consumer:
                stamps = first_stamps(consumer, {(w.topic, w.partition): o for w, o in at.items()}, GLANCE_SECONDS)
        except KafkaException as error:
            raise self._away(error) from None
        return {
            LogPartition(*where): None if stamp is None else moment_of_stamp(stamp) for where, stamp in stamps.items()
        }

    def retention(self, topic: str) -> timedelta | None:
        """Returns the topic's retention time. None if time deletes no records, or if the login may not read it."""
        limits = self.retention_limits(topic)
        return None if limits is None else limits.time

    def retention_limits(self, topic: str) -> Retention | None:
        """Returns by time and size how long the topic keeps records. Returns None if the login may not read it."""
        settings = self._settings(ConfigResource.Type.TOPIC, topic)
        return None if settings is None else retention_of(settings)

    def compacts(self, topic: str) -> bool:
        """Returns True if the topic's settings allow compaction, or if the login may not read them."""
        settings = self._settings(ConfigResource.Type.TOPIC, topic)
        return settings is None or "compact" in settings["cleanup.policy"]

    def largest_batch(self, topic: str) -> int | None:
        """Returns how many bytes a batch of records may have there, or None if the login may not read it."""
        settings = self._settings(ConfigResource.Type.TOPIC, topic)
        return None if settings is None else int(settings["max.message.bytes"])

    def groups(self) -> dict[str, str]:
        """Returns each consumer group that the login may see, with its state, such as `Stable` or `Empty`."""
        try:
            asked = self._client().list_consumer_groups(request_timeout=client.ANSWER_SECONDS)
            found = asked.result(client.ANSWER_SECONDS + client.GRACE)
        except KafkaException as error:
            raise self._away(error) from None
        if found.errors:  # of one of the brokers, whose groups are not in the answer
            raise self._away(found.errors[0])
        return {each.group_id: each.state.name.capitalize() for each in found.valid}

    def mirror(self, group: str, positions: Mapping[LogPartition, int]) -> None:
        """Commits positions as a consumer group's offsets, for ordinary lag tools. Moves them forward only.

        Raises `Unreachable` if the group is in use or may not be written. They decide nothing: a watcher takes them for a hint.
        """
        try:
            show_forward(self._options, group, positions, client.ANSWER_SECONDS)
        except KafkaException as error:
            raise self._away(error) from None

    def records(
        self,
        topic: str,
        partition: int,
        from_offset: int,
        until_offset: int,
        *,
        committed: bool = True,
        most: int = MOST_FETCHED_BYTES,
    ) -> Iterator[Any]:
        """Yields every committed record of the range, in order. Ends by position: an empty poll is no end.

        Without `committed`, yields records of open and aborted transactions, too. Raises `BadData` for a batch that is
        unreadable, or has over `most` bytes after decompression. Raises `Unreachable` after `ANSWER_SECONDS` without a fetch.
        """
        if from_offset >= until_offset:
            return
        fetched, where = Fetched(), TopicPartition(topic, partition, from_offset)
        at, waited = from_offset, 0.0
        limit = {"receive.message.max.bytes": most}
        with closing_soon(self._reader(committed=committed, **fetched.settings, **limit)) as consumer:
            consumer.assign([where])
            while waited < client.ANSWER_SECONDS:
                found = consumer.consume(RECORDS_AT_ONCE, timeout=SECONDS_A_LOOK)
                for message in found:
                    if is_past(message, until_offset):
                        return
                    refuse_malformed(message, self.bootstrap, most)
                    if message.error() and message.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                        raise self._away(KafkaException(message.error()))
                    if message.error():
                        return
                    yield message
                    if is_past(message, until_offset - 1):
                        return
                at = consumer.position([where])[0].offset
                if at >= until_offset:
                    return
                waited = 0.0 if found or fetched.has_moved() else waited + SECONDS_A_LOOK
            raise Unreachable(
                f"{topic}-{partition}: Kafka at {self.bootstrap} gave nothing from offset {max(at, from_offset)} on "
                f"for {client.ANSWER_SECONDS:.0f} s",
                next_command="look at LOCKSTEP_KAFKA; for the embedded broker: lockstep dev status",
            )
