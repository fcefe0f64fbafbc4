"""Reads and sets consumer groups: a pipeline's mirrored offsets, and those of a reader that it takes over from."""

from __future__ import annotations

import shlex
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from lockstep.adapters.kafka.login import login_settings
from lockstep.core.changes.readers import Standing
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.offsets import TopicPartition as LogPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka import KafkaError

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.readers import Reader

GROUP_SECONDS = 10.0
FIRST_CONTACT_SECONDS = 1.0
RESTING = "Empty"  # the state of a group without members


def standing_of_group(broker: Broker, pipeline: str, reader: Reader, partitions: Iterable[LogPartition]) -> Standing:
    """Returns where a reader's consumer group stands. Raises `Refusal` while it has members, and without such a group."""
    known, group = broker.groups(), str(reader.group)
    if group not in known:
        near = next(iter(get_close_matches(group, known, 1)), "GROUP")
        raise Refusal(
            f"{reader.shown} is not at {broker.bootstrap}, or this login may not see it",
            next_command=f"lockstep adopt {pipeline} --group {shlex.quote(near)}",
        )
    if known[group] != RESTING:
        raise Refusal(
            f"{reader.shown} has live members (it is {known[group]}): stop what reads there",
            next_command=f"lockstep adopt {pipeline} {reader.words}",
        )
    return Standing(reader, mirrored(broker, group, partitions))


def mirrored(broker: Broker, group: str, partitions: Iterable[LogPartition]) -> dict[LogPartition, int]:
    """Returns, per partition, the group's offset. Omits partitions without one."""
    found = _asked(broker, group, [TopicPartition(at.topic, at.partition) for at in partitions])
    return {LogPartition(part.topic, part.partition): part.offset for part in found if part.offset >= 0}


def set_back_group(broker: Broker, group: str, positions: Mapping[LogPartition, int]) -> None:
    """Commits these positions for the group, even backwards. Raises `Unreachable` if the group is in use."""
    _asked(broker, group, [TopicPartition(p.topic, p.partition, at) for p, at in positions.items()], commits=True)


def show_forward(options: Mapping[str, Any], group: str, positions: Mapping[LogPartition, int], seconds: float) -> None:
    """Commits the positions past the group's committed ones. Raises `KafkaException` if it may not."""
    # A group member, not an admin client, which crashes if a coordinator has just moved (librdkafka#5040).
    # It connects to its coordinator before it knows where that is, and then pauses: 40 milliseconds less so.
    at_once = {"reconnect.backoff.ms": 1}
    consumer = Consumer(at_once | dict(options) | {"group.id": group, "enable.auto.commit": False})
    asked = [TopicPartition(at.topic, at.partition) for at in positions]
    try:
        with suppress(KafkaException):  # a connection that is there is asked for the coordinator without a pause
            consumer.get_watermark_offsets(asked[0], timeout=FIRST_CONTACT_SECONDS)
        before = consumer.committed(asked, timeout=seconds)
        ahead = [TopicPartition(p.topic, p.partition, positions[LogPartition(p.topic, p.partition)]) for p in before]
        ahead = [new for new, old in zip(ahead, before, strict=True) if new.offset > old.offset]
        moved = consumer.commit(offsets=ahead, asynchronous=False) if ahead else []
    finally:
        consumer.close()
    for part in [*before, *moved]:
        if part.error:
            raise KafkaException(part.error)


def _asked(
    broker: Broker, group: str, partitions: list[TopicPartition], *, commits: bool = False
) -> list[TopicPartition]:
    settings = {"bootstrap.servers": broker.bootstrap, "log_level": 0, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer(login_settings(broker.options) | settings)
    try:
        found = (
            consumer.commit(offsets=partitions, asynchronous=False)
            if commits
            else consumer.committed(partitions, timeout=GROUP_SECONDS)
        )
    except KafkaException as error:
        raise _away(broker, group, error.args[0]) from None
    finally:
        consumer.close()
    for part in found:
        if part.error:
            raise _away(broker, group, part.error)
    return list(found)


def _away(broker: Broker, group: str, error: KafkaError) -> Unreachable:
    return Unreachable(
        f"the consumer group {group} cannot be asked at {broker.bootstrap}: {broker.options.hidden(error.str())}",
        next_command="look at LOCKSTEP_KAFKA; for the embedded broker: lockstep dev status",
    )
