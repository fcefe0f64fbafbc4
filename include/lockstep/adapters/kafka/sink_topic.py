"""Makes the topic that a relay writes to, and finds the last change that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from lockstep.adapters.kafka.login import login_settings
from lockstep.adapters.kafka.reading import record_headers
from lockstep.core.errors import Unreachable, UnreadableHeaders
from lockstep.core.feed.relaying import NUMBER_HEADER

if TYPE_CHECKING:
    from confluent_kafka import Message

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import TopicView

SINK_MADE_SECONDS = 30.0  # that Kafka may take to make a topic
LOOKED_AT_FIRST = 1_000  # offsets at a partition's end, then ever more


def ensure_sink(broker: Broker, topic: str, partitions: int) -> bool:
    """Makes a topic unless it is there. Returns True if it was made."""
    options = login_settings(broker.options) | {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    admin = AdminClient(options)
    (made,) = admin.create_topics([NewTopic(topic, partitions)], request_timeout=SINK_MADE_SECONDS).values()
    try:
        made.result(SINK_MADE_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise Unreachable(
                f"{topic} was not made on Kafka at {broker.bootstrap}: {broker.options.hidden(error.args[0].str())}",
                next_command="look at LOCKSTEP_KAFKA; for the embedded broker: lockstep dev status",
            ) from None
        return False
    return True


def number_of(message: Message) -> int | None:
    """Returns the number of a record's change, or None if no relay has sent it."""
    try:
        return next(int(value) for name, value in record_headers(message) or [] if name == NUMBER_HEADER)
    except (StopIteration, TypeError, ValueError, UnreadableHeaders):
        return None


def newest_number(broker: Broker, view: TopicView) -> int | None:
    """Returns the highest number among the last committed changes of each partition, or None if there is none."""
    found = [_newest(broker, view, partition) for partition in view.bounds]
    return max((number for number in found if number is not None), default=None)


def _newest(broker: Broker, view: TopicView, partition: int) -> int | None:
    bounds, span = view.bounds[partition], LOOKED_AT_FIRST
    until = bounds.stable_end
    while until > bounds.log_start:
        begin = max(bounds.log_start, until - span)
        records = broker.records(view.topic, partition, begin, until)
        numbers = [number for number in map(number_of, records) if number is not None]
        if numbers:
            return max(numbers)
        until, span = begin, span * 4
    return None
