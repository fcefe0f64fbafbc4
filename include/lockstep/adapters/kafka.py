"""Reads a topic's identity, its bounds for a `read_committed` reader, its records, and the offsets of times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from lockstep.adapters.kafka_away import Connections
from lockstep.adapters.kafka_election import settled
from lockstep.adapters.kafka_epochs import LAST_STAMP, epoch_of
from lockstep.adapters.kafka_group import show_forward
from lockstep.adapters.kafka_reading import MOST_BYTES, Fetched, first_stamps, refuse_malformed
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import Bounds, TopicView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SECONDS = 15.0
RECORDS_AT_ONCE = 10_000
GLANCE = {"fetch.message.max.bytes": 16_384, "queued.min.messages": 1}  # one record of each partition is wanted
GLANCE_SECONDS = 5.0
FORBIDDEN = (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
SECONDS_A_LOOK = 0.2
GRACE = 5.0  # librdkafka reports a missing answer only a moment after its own timeout


class Broker:
    """A client of one cluster. It opens connections on first use and keeps them."""

    def __init__(self, bootstrap: str, options: KafkaOptions | None = None) -> None:
        self.bootstrap = bootstrap
        self.options = options or KafkaOptions()
        self._options: dict[str, Any] = {
            **self.options.for_librdkafka(),
            "bootstrap.servers": bootstrap,
            "allow.auto.create.topics": False,
            "log_level": 0,
        }
        self._admin: AdminClient | None = None
        self._connections = Connections()

    def __reduce__(self) -> tuple[type[Broker], tuple[str, KafkaOptions]]:
        """Pickles the address alone, for executors. Connections stay behind."""
        return Broker, (self.bootstrap, self.options)

    def view(self, topic: str) -> TopicView:
        """Reads cluster id, topic id and every partition's bounds now.

        Raises `Refusal` if the topic does not exist and `Unreachable` if the cluster does not answer.
        """
        try:
            cluster_asked = self._client().describe_cluster(request_timeout=SECONDS)
            described = self._describe(topic)
            cluster = cluster_asked.result(SECONDS + GRACE)
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
        partitions = [TopicPartition(view.topic, p) for p in view.bounds]
        try:
            (found,) = self._listed(partitions, OffsetSpec.for_timestamp(int(moment.timestamp() * 1000)))
        except KafkaException as error:
            raise self._away(error) from None
        ends = {p: bounds.stable_end for p, bounds in view.bounds.items()}
        return {
            p: (found[p].offset, _moment(found[p].timestamp)) if 0 <= found[p].offset < end else (end, None)
            for p, end in ends.items()
        }

    def high_ends(self, view: TopicView) -> dict[int, int]:
        """Returns, per partition, the offset behind the last record, even if its transaction is still open."""
        try:
            return self._ends(view.topic, view.bounds, IsolationLevel.READ_UNCOMMITTED)
        except KafkaException as error:
            raise self._away(error) from None

    def first_times(self, topic: str, at: Mapping[int, int], *, committed: bool = True) -> dict[int, datetime]:
        """Returns, per partition, the time of the first record at or past an offset. Omits late or missing answers."""
        if not at:
            return {}
        consumer = self._reader(committed=committed, **GLANCE)
        try:
            stamps = first_stamps(consumer, topic, at, GLANCE_SECONDS)
        except KafkaException as error:
            raise self._away(error) from None
        finally:
            consumer.close()
        return {partition: _moment(stamp) for partition, stamp in stamps.items()}

    def retention(self, topic: str) -> timedelta | None:
        """Returns the topic's retention time. None if time deletes no records, or if the login may not read it."""
        settings = self._settings(ConfigResource.Type.TOPIC, topic)
        if settings is None:
            return None
        kept = int(settings["retention.ms"])
        return timedelta(milliseconds=kept) if kept >= 0 and "delete" in settings["cleanup.policy"] else None

    def compacts(self, topic: str) -> bool:
        """Returns True if the topic's settings allow compaction, or if the login may not read them."""
        settings = self._settings(ConfigResource.Type.TOPIC, topic)
        return settings is None or "compact" in settings["cleanup.policy"]

    def mirror(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """Commits positions as a consumer group's offsets, for ordinary lag tools. Moves them forward only.

        Raises `Unreachable` if the group is in use or may not be written. Lockstep never reads them back.
        """
        try:
            show_forward(self._options, group, topic, positions, SECONDS)
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
        most: int = MOST_BYTES,
    ) -> Iterator[Any]:
        """Yields every committed record of the range, in order. Ends by position: an empty poll is no end.

        Without `committed`, yields records of open and aborted transactions, too. Raises `BadData` for a batch that is
        unreadable, or has over `most` bytes after decompression. Raises `Unreachable` after `SECONDS` without a fetch.
        """
        if from_offset >= until_offset:
            return
        fetched, where = Fetched(), TopicPartition(topic, partition, from_offset)
        consumer = self._reader(committed=committed, **fetched.settings, **{"receive.message.max.bytes": most})
        consumer.assign([where])
        at, waited = from_offset, 0.0
        try:
            while waited < SECONDS:
                found = consumer.consume(RECORDS_AT_ONCE, timeout=SECONDS_A_LOOK)
                for message in found:
                    refuse_malformed(message, self.bootstrap, most)
                    if message.error() and message.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                        raise self._away(KafkaException(message.error()))
                    if not message.error() and message.offset() < until_offset:
                        yield message
                    elif message.error() or message.offset() >= until_offset:
                        return
                at = consumer.position([where])[0].offset
                if at >= until_offset:
                    return
                waited = 0.0 if found or fetched.has_moved() else waited + SECONDS_A_LOOK
            raise Unreachable(
                f"{topic}-{partition}: Kafka at {self.bootstrap} gave nothing from offset {max(at, from_offset)} on "
                f"for {SECONDS:.0f} s",
                next_command="lockstep dev status",
            )
        finally:
            consumer.close()

    def _reader(self, *, committed: bool, **more: object) -> Consumer:
        return Consumer(
            self._options
            | more
            | {
                "group.id": "lockstep-verify",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            }
        )

    def _client(self) -> AdminClient:
        if self._admin is None:
            patience = {"socket.timeout.ms": int(SECONDS * 1000)}
            self._admin = AdminClient(patience | self._options | {"error_cb": self._connections})
        return self._admin

    def _describe(self, topic: str) -> Any:
        try:
            asked = self._client().describe_topics(TopicCollection([topic]), request_timeout=SECONDS)[topic]
            return asked.result(SECONDS + GRACE)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise Refusal(
                    f"topic {topic} is not on the broker at {self.bootstrap}",
                    next_command=f"lockstep dev topic {topic}, or create it on your own broker",
                ) from None
            raise

    def _settings(self, kind: ConfigResource.Type, name: str) -> dict[str, str] | None:
        """Returns the settings in force, or None if they may not be read."""
        try:
            (found,) = self._client().describe_configs([ConfigResource(kind, name)], request_timeout=SECONDS).values()
            return {name: entry.value for name, entry in found.result(SECONDS + GRACE).items()}
        except KafkaException as error:
            if error.args[0].code() in FORBIDDEN:
                return None
            raise self._away(error) from None

    def _ends(self, topic: str, partitions: Iterable[int], isolation: IsolationLevel) -> dict[int, int]:
        asked = [TopicPartition(topic, p) for p in partitions]
        (last,) = self._listed(asked, OffsetSpec.latest(), isolation=isolation)
        return {partition: end.offset for partition, end in last.items()}

    def _listed(
        self,
        partitions: list[TopicPartition],
        *specs: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> list[dict[int, Any]]:
        """Returns each partition's answer to each question. All questions are sent at once."""

        def ask() -> list[dict[int, Any]]:
            asked = [
                self._client().list_offsets(
                    dict.fromkeys(partitions, spec), isolation_level=isolation, request_timeout=SECONDS
                )
                for spec in specs
            ]
            return [{p.partition: future.result(SECONDS + GRACE) for p, future in each.items()} for each in asked]

        return settled(ask)

    def _away(self, error: KafkaException) -> Unreachable:
        locked = "security.protocol" in self._options
        return self._connections.away(self.bootstrap, self._admin, error.args[0], locked=locked)


def _moment(stamp: int) -> datetime:
    return datetime.fromtimestamp(min(stamp, LAST_STAMP) / 1000, UTC)
