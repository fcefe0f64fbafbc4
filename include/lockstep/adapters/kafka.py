"""Kafka: which log a topic is, what it holds for a `read_committed` reader, and which offset a time begins at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.offsets import Bounds, TopicView

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

SECONDS = 15.0


class Broker:
    """One cluster, asked directly; connections are opened on first use and kept."""

    def __init__(self, bootstrap: str, options: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self.options = dict(options or {})
        self._options: dict[str, Any] = {
            **self.options,
            "bootstrap.servers": bootstrap,
            "allow.auto.create.topics": False,
            "log_level": 0,
        }
        self._admin: AdminClient | None = None

    def view(self, topic: str) -> TopicView:
        """Cluster id, topic id and every partition's bounds, all read now.

        Raises `Refusal` when the topic is not there and `Unreachable` when nobody answers.
        """
        try:
            described = self._describe(topic)
            cluster = self._client().describe_cluster(request_timeout=SECONDS).result(SECONDS)
            partitions = [TopicPartition(topic, part.id) for part in described.partitions]
            starts = self._offsets(partitions, OffsetSpec.earliest())
            ends = self._offsets(partitions, OffsetSpec.latest())
        except KafkaException as error:
            raise self._away(error) from None
        bounds = {p: Bounds(min(starts[p], ends[p]), ends[p]) for p in sorted(starts)}
        return TopicView(cluster.cluster_id, topic, str(described.topic_id), bounds)

    def offsets_at(self, view: TopicView, moment: datetime) -> dict[int, int]:
        """Per partition the first offset whose timestamp is at or past the moment; the stable end where there is none."""
        partitions = [TopicPartition(view.topic, p) for p in view.bounds]
        try:
            found = self._offsets(partitions, OffsetSpec.for_timestamp(int(moment.timestamp() * 1000)))
        except KafkaException as error:
            raise self._away(error) from None
        ends = {p: bounds.stable_end for p, bounds in view.bounds.items()}
        return {p: min(found[p], ends[p]) if found[p] >= 0 else ends[p] for p in ends}

    def reader(self, group: str = "lockstep-verify") -> Consumer:
        """A `read_committed` consumer that commits nothing anywhere; the caller assigns and closes it."""
        return Consumer(
            self._options
            | {
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
            }
        )

    def _client(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(self._options | {"socket.timeout.ms": int(SECONDS * 1000)})
        return self._admin

    def _describe(self, topic: str) -> Any:
        try:
            return (
                self._client().describe_topics(TopicCollection([topic]), request_timeout=SECONDS)[topic].result(SECONDS)
            )
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise Refusal(
                    f"topic {topic} is not on the broker at {self.bootstrap}",
                    next_command="create the topic (demo topics: lockstep dev produce NAME --records 1000)",
                ) from None
            raise

    def _offsets(self, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[int, int]:
        futures = self._client().list_offsets(
            dict.fromkeys(partitions, spec), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=SECONDS
        )
        return {asked.partition: future.result(SECONDS).offset for asked, future in futures.items()}

    def _away(self, error: KafkaException) -> Unreachable:
        return Unreachable(
            f"Kafka at {self.bootstrap} does not answer: {error.args[0].str()}", next_command="lockstep dev status"
        )
