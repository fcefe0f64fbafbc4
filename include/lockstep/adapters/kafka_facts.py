"""Kafka's surroundings of a pipeline: how a topic is kept, what waits in it, and which transactions are open."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec

from lockstep.adapters.kafka import GRACE, SECONDS, Broker
from lockstep.core.broker_findings import TopicFacts
from lockstep.core.log_findings import OpenTransaction

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE = 5.0
OF_TOPIC = (
    "cleanup.policy",
    "delete.retention.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "unclean.leader.election.enable",
)
OF_BROKER = ("transaction.max.timeout.ms",)

FORBIDDEN = (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


class SurveyedBroker(Broker):
    """A broker that also tells how it keeps a topic."""

    def answers(self) -> None:
        """Raises `Unreachable` when nobody answers within a few seconds."""
        try:
            self._client().describe_cluster(request_timeout=PATIENCE).result(PATIENCE + GRACE)
        except KafkaException as error:
            raise self._away(error) from None

    def topic_facts(self, topic: str) -> TopicFacts:
        """How the topic is kept; raises `Refusal` when it is not there."""
        try:
            described = self._describe(topic)
            cluster = self._client().describe_cluster(request_timeout=SECONDS).result(SECONDS + GRACE)
            of_topic = self._settings(ConfigResource.Type.TOPIC, topic, OF_TOPIC)
            asked = (cluster.controller or cluster.nodes[0]).id
            of_broker = self._settings(ConfigResource.Type.BROKER, str(asked), OF_BROKER)
        except KafkaException as error:
            raise self._away(error) from None
        copies = min(len(part.replicas) for part in described.partitions)
        settings = None if of_topic is None else of_topic | (of_broker or {})
        return TopicFacts(self.bootstrap, topic, len(cluster.nodes), len(described.partitions), copies, settings)

    def open_transactions(self, topic: str) -> list[OpenTransaction]:
        """The partitions whose last stable offset lies below the high watermark, with the timestamp of what stands there."""
        try:
            partitions = [TopicPartition(topic, part.id) for part in self._describe(topic).partitions]
            # In this order: what is appended in between must not look like an open transaction.
            marks = self._high_watermarks(partitions)
            ends = self._offsets(partitions, OffsetSpec.latest())
        except KafkaException as error:
            raise self._away(error) from None
        held = {p: end for p, end in ends.items() if end < marks[p]}
        since = self.first_timestamps(topic, held, committed=False)
        return [OpenTransaction(p, end, marks[p], since.get(p)) for p, end in sorted(held.items())]

    def first_timestamps(
        self, topic: str, offsets: Mapping[int, int], *, committed: bool = True
    ) -> dict[int, datetime]:
        """Per partition the timestamp of the first record at or past an offset; of committed records, or of all.

        A partition whose record does not come within a few seconds is left out.
        """
        if not offsets:
            return {}
        found: dict[int, datetime] = {}
        waiting, until = set(offsets), time.monotonic() + PATIENCE
        consumer = Consumer(self._reading(committed=committed))
        try:
            consumer.assign([TopicPartition(topic, p, offset) for p, offset in offsets.items()])
            while waiting and time.monotonic() < until:
                for message in consumer.consume(len(waiting), timeout=0.2):
                    partition = message.partition()
                    if partition not in waiting or not _ends_the_wait(message):
                        continue
                    waiting.discard(partition)
                    consumer.incremental_unassign([TopicPartition(topic, partition)])
                    if not message.error():
                        found[partition] = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
        except KafkaException as error:
            raise self._away(error) from None
        finally:
            consumer.close()
        return found

    def _high_watermarks(self, partitions: list[TopicPartition]) -> dict[int, int]:
        futures = self._client().list_offsets(
            dict.fromkeys(partitions, OffsetSpec.latest()),
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=SECONDS,
        )
        return {asked.partition: future.result(SECONDS + GRACE).offset for asked, future in futures.items()}

    def _settings(self, kind: ConfigResource.Type, name: str, wanted: tuple[str, ...]) -> dict[str, str] | None:
        """The settings in force, without those that this broker does not know; None where we may not see them."""
        try:
            (asked,) = self._client().describe_configs([ConfigResource(kind, name)], request_timeout=SECONDS).values()
            entries = asked.result(SECONDS + GRACE)
        except KafkaException as error:
            if error.args[0].code() in FORBIDDEN:
                return None
            raise
        return {name: entries[name].value for name in wanted if name in entries and entries[name].value is not None}

    def _reading(self, *, committed: bool) -> dict[str, Any]:
        return self._options | {
            "group.id": "lockstep-doctor",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "fetch.message.max.bytes": 65_536,
            "queued.min.messages": 1,
        }


def _ends_the_wait(message: Any) -> bool:
    """A record, the end of the partition, or an offset that is gone; anything else passes."""
    error = message.error()
    return not error or error.code() in {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET}  # noqa: SLF001 - public names
