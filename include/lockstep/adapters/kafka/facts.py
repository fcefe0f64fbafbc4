"""Reads a topic's settings, its replicas and its open transactions."""

from __future__ import annotations

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import ConfigResource

from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.kafka.client import ANSWER_SECONDS, GRACE
from lockstep.core.health.broker_findings import TopicFacts
from lockstep.core.health.log_findings import OpenTransaction

FACTS_PATIENCE = 5.0
OF_TOPIC = (
    "cleanup.policy",
    "delete.retention.ms",
    "local.retention.bytes",
    "local.retention.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
    "unclean.leader.election.enable",
)
OF_BROKER = ("log.retention.check.interval.ms", "offsets.retention.minutes", "transaction.max.timeout.ms")


class SurveyedBroker(Broker):
    """A broker that also reports the settings of a topic."""

    def answers(self) -> None:
        """Raises `Unreachable` if the broker does not answer within a few seconds."""
        try:
            self._client().describe_cluster(request_timeout=FACTS_PATIENCE).result(FACTS_PATIENCE + GRACE)
        except KafkaException as error:
            raise self._away(error) from None

    def topic_facts(self, topic: str) -> TopicFacts:
        """Returns the topic's settings, replicas and partitions. Raises `Refusal` if it does not exist."""
        try:
            described = self._describe(topic)
            cluster = self._client().describe_cluster(request_timeout=ANSWER_SECONDS).result(ANSWER_SECONDS + GRACE)
            of_topic = self._settings(ConfigResource.Type.TOPIC, topic)
            asked = (cluster.controller or cluster.nodes[0]).id
            of_broker = self._settings(ConfigResource.Type.BROKER, str(asked))
        except KafkaException as error:
            raise self._away(error) from None
        copies = min(len(part.replicas) for part in described.partitions)
        settings = None if of_topic is None else _wanted(of_topic, OF_TOPIC) | _wanted(of_broker or {}, OF_BROKER)
        return TopicFacts(self.bootstrap, topic, len(cluster.nodes), len(described.partitions), copies, settings)

    def open_transactions(self, topic: str) -> list[OpenTransaction]:
        """Returns the partitions that an open transaction holds, with the time of the record there.

        Their last stable offset is below the high watermark.
        """
        try:
            parts = [part.id for part in self._describe(topic).partitions]
            # In this order: what is appended in between must not look like an open transaction.
            marks = self._ends(topic, parts, IsolationLevel.READ_UNCOMMITTED)
            ends = self._ends(topic, parts, IsolationLevel.READ_COMMITTED)
        except KafkaException as error:
            raise self._away(error) from None
        held = {p: end for p, end in ends.items() if end < marks[p]}
        since = self.first_times(topic, held, committed=False)
        return [OpenTransaction(p, end, marks[p], since.get(p)) for p, end in sorted(held.items())]


def _wanted(settings: dict[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Returns the named settings. Omits those that this broker does not know."""
    return {name: settings[name] for name in names if settings.get(name) is not None}
