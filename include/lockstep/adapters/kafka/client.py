"""Asks a cluster: its admin client and its readers, the wait for an answer, and the refusal without one."""

from __future__ import annotations

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

from lockstep.adapters.kafka.away import Connections
from lockstep.adapters.kafka.election import settled_answers
from lockstep.adapters.kafka.login import login_settings
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.kafka_options import KafkaOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

ANSWER_SECONDS = 15.0
FORBIDDEN = (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
GRACE = 5.0  # librdkafka reports a missing answer only a moment after its own timeout


class Client:
    """The connections to one cluster. They open on first use and stay open."""

    def __init__(self, bootstrap: str, options: KafkaOptions | None = None) -> None:
        self.bootstrap = bootstrap
        self.options = options or KafkaOptions()
        self._options: dict[str, Any] = {
            **login_settings(self.options),
            "bootstrap.servers": bootstrap,
            "allow.auto.create.topics": False,
            "log_level": 0,
        }
        self._admin: AdminClient | None = None
        self._connections = Connections()

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
            patience = {"socket.timeout.ms": int(ANSWER_SECONDS * 1000)}
            self._admin = AdminClient(patience | self._options | {"error_cb": self._connections})
        return self._admin

    def _describe(self, topic: str) -> Any:
        try:
            asked = self._client().describe_topics(TopicCollection([topic]), request_timeout=ANSWER_SECONDS)[topic]
            return asked.result(ANSWER_SECONDS + GRACE)
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
            (found,) = (
                self._client().describe_configs([ConfigResource(kind, name)], request_timeout=ANSWER_SECONDS).values()
            )
            return {name: entry.value for name, entry in found.result(ANSWER_SECONDS + GRACE).items()}
        except KafkaException as error:
            if error.args[0].code() in FORBIDDEN:
                return None
            raise self._away(error) from None

    def _ends(self, topic: str, partitions: Iterable[int], isolation: IsolationLevel) -> dict[int, int]:
        asked = [TopicPartition(topic, p) for p in partitions]
        (last,) = self._listed(asked, OffsetSpec.latest(), isolation=isolation)
        return {partition: end.offset for partition, end in last.items()}

    def _listed(
        self, partitions: list[TopicPartition], *specs: OffsetSpec, **how: IsolationLevel
    ) -> list[dict[int, Any]]:
        """Returns each answer to each question, by partition of the one topic. All questions are sent at once."""
        found = self._answers(partitions, *specs, **how)
        return [{partition: answer for (_, partition), answer in each.items()} for each in found]

    def _answers(
        self,
        partitions: list[TopicPartition],
        *specs: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> list[dict[tuple[str, int], Any]]:
        """Returns each answer to each question, by topic and partition. All questions are sent at once."""

        def ask() -> list[dict[tuple[str, int], Any]]:
            asked = [
                self._client().list_offsets(
                    dict.fromkeys(partitions, spec), isolation_level=isolation, request_timeout=ANSWER_SECONDS
                )
                for spec in specs
            ]
            return [
                {(p.topic, p.partition): future.result(ANSWER_SECONDS + GRACE) for p, future in each.items()}
                for each in asked
            ]

        return settled_answers(ask)

    def _away(self, error: KafkaException) -> Unreachable:
        return self._connections.away(self.bootstrap, self._admin, error.args[0], self.options)
