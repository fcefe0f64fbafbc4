"""Makes topics on a broker of one node, and counts their partitions."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from lockstep.core.errors import Refusal, Unreachable

PARTITIONS = 4
PATIENCE_SECONDS = 5.0
TOLD_SECONDS = 0.02
_KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
# The broker answered, and says no to the topic itself.
_REFUSED = (
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)


@dataclass(frozen=True, slots=True)
class MadeTopic:
    """A topic on the broker. `created` is True if it was not there before."""

    name: str
    partitions: int
    created: bool


def make_topic(bootstrap: str, name: str, partitions: int | None = None) -> MadeTopic:
    """Creates the topic, or finds it with these partitions. Raises `Refusal` if it has another number of them."""
    admin = AdminClient(client(bootstrap))
    try:
        if create_topic(admin, name, partitions or PARTITIONS):
            return MadeTopic(name, partitions or PARTITIONS, created=True)
        there = count_partitions(admin, name)
    except KafkaException as error:
        raise _refused(bootstrap, name, error.args[0]) from None
    except TimeoutError:
        raise late(bootstrap) from None
    if there is None:
        raise Refusal(f"topic {name} is being deleted.", next_command=f"lockstep dev topic {name}")
    if partitions not in {None, there}:
        raise Refusal(
            f"topic {name} has {there} partitions, not {partitions}: with another number, a key changes its partition.",
            next_command=f"lockstep dev topic {name} --partitions {there}, or another name",
        )
    return MadeTopic(name, there, created=False)


def require_topic(bootstrap: str, name: str) -> int:
    """Returns the number of the topic's partitions. Raises `Refusal` with the command that makes a missing one."""
    try:
        there = count_partitions(AdminClient(client(bootstrap)), name)
    except KafkaException as error:
        raise _refused(bootstrap, name, error.args[0]) from None
    if there is None:
        raise Refusal(
            f"topic {name} is not on the broker at {bootstrap}.",
            next_command=f"lockstep dev topic {name} --partitions {PARTITIONS}",
        )
    return there


def create_topic(admin: AdminClient, name: str, partitions: int) -> bool:
    """Creates a topic that keeps its records for ever, and waits until the broker tells it. Returns False if it existed."""
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=_KEPT_FOR_EVER)
    try:
        asked = admin.create_topics([new], operation_timeout=PATIENCE_SECONDS, request_timeout=PATIENCE_SECONDS)
        asked[name].result(PATIENCE_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    until = time.monotonic() + PATIENCE_SECONDS
    while count_partitions(admin, name) is None:  # the controller has made it, and tells the broker in a moment
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(TOLD_SECONDS)
    return True


def count_partitions(admin: AdminClient, name: str) -> int | None:
    """Returns how many partitions a topic has, or None without the topic."""
    found = admin.list_topics(name, timeout=PATIENCE_SECONDS).topics[name]
    if found.error is None:
        return len(found.partitions)
    if found.error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}:  # noqa: SLF001 - its public name
        return None
    raise KafkaException(found.error)


def client(bootstrap: str) -> dict[str, Any]:
    """Returns the settings of every client of the embedded broker."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "allow.auto.create.topics": False}


def away(bootstrap: str, words: str) -> Unreachable:
    """Returns the error for a broker that does not answer."""
    return Unreachable(f"Kafka at {bootstrap} does not answer: {words}.", next_command="lockstep dev up")


def late(bootstrap: str) -> Unreachable:
    """Returns the error for a broker that took too long."""
    return away(bootstrap, f"nothing within {PATIENCE_SECONDS:.0f} s")


def _refused(bootstrap: str, name: str, error: KafkaError) -> Refusal:
    if error.code() in _REFUSED:
        return Refusal(
            f"Kafka at {bootstrap} refuses topic {name}: {error.str()}", next_command="lockstep dev topic ANOTHER_NAME"
        )
    return away(bootstrap, error.str())
