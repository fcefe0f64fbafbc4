"""Writes records to a topic in transactions that commit a cursor with them."""

from __future__ import annotations

import logging
import time
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from lockstep.adapters.kafka.login import login_settings
from lockstep.core.errors import BadData, Refusal, SlowSink, Superseded, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.feed.relaying import FeedRecord

SINK_ANSWER_SECONDS = 30.0  # that one call to Kafka may take
TRANSACTION_SECONDS = 60  # a dead relay holds readers back for no longer
SINK_COMMIT_TRIES = 3
DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})  # noqa: SLF001 - its public name
# A group's coordinator is elsewhere for a moment, as after a start of the broker.
MOVING = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
ENDED = KafkaError._FATAL  # noqa: SLF001 - its public name
TIMED_OUT = KafkaError._MSG_TIMED_OUT  # noqa: SLF001 - its public name
MOVING_SECONDS = 0.2
FULL_SECONDS = 0.1
SENT_BETWEEN_POLLS = 100  # records. A poll hears of errors alone, and costs as much as a record.
UNHEARD = logging.getLogger(__name__)  # a fenced producer says so at a level that cannot be switched off
UNHEARD.addHandler(logging.NullHandler())
LEAST_BATCH, MOST_BATCH = 1_000, 1_000_000_000  # bytes, of the client. A topic may take fewer, or more.


class SinkWriter:
    """A transactional writer of one topic. The cursor is the offset of a group that is named as the transactions are."""

    def __init__(self, broker: Broker, topic: str, transactional_id: str) -> None:
        self.broker, self.topic = broker, topic
        self._refused: list[tuple[int, FeedRecord, KafkaError]] = []
        options = login_settings(broker.options) | {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        self._group = options | {
            "group.id": transactional_id,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",  # the cursor waits for a transaction that is not decided yet
        }
        self._producer = Producer(
            options
            | {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "delivery.report.only.error": True,
            }
            | _sizes(broker.largest_batch(topic)),
            logger=UNHEARD,
        )

    def fence(self) -> None:
        """Ends the transaction of an earlier writer, one way or the other, and keeps that writer from another one."""
        self._asked(self._producer.init_transactions, SINK_ANSWER_SECONDS)

    def cursor(self) -> int | None:
        """Returns the number that the last committed transaction left, or None if there is no cursor."""
        consumer, until = Consumer(self._group), time.monotonic() + SINK_ANSWER_SECONDS
        try:
            while True:
                found = self._committed(consumer)
                if not isinstance(found, KafkaError):
                    return found.offset if found.offset >= 0 else None
                if found.code() not in MOVING or time.monotonic() > until:
                    raise self._told(found)
                time.sleep(MOVING_SECONDS)
        finally:
            consumer.close()

    def _committed(self, consumer: Consumer) -> TopicPartition | KafkaError:
        try:
            (found,) = consumer.committed([TopicPartition(self.topic, 0)], SINK_ANSWER_SECONDS)
        except KafkaException as error:
            return error.args[0]
        return found.error or found

    def begin(self) -> None:
        """Begins a transaction."""
        self._refused = []
        self._asked(self._producer.begin_transaction)

    def send(self, records: Iterable[FeedRecord]) -> int:
        """Gives records to the producer, and returns of how many changes. Raises `BadData` for one that is too large."""
        sent, last = 0, -1
        for place, record in enumerate(records):
            self._send(record)
            if place % SENT_BETWEEN_POLLS == 0:
                self._asked(self._producer.poll, 0)
            sent, last = sent + (record.number != last), record.number
        return sent

    def flush(self) -> None:
        """Waits until the broker has every record. Raises the error of one that it did not take, `SlowSink` for too many."""
        left = self._asked(self._producer.flush, SINK_ANSWER_SECONDS)
        if self._refused:
            raise self._of_refused()
        if left:
            raise self._away(f"{left} records were not acknowledged within {SINK_ANSWER_SECONDS:.0f} s", SlowSink)

    def partitions(self) -> int:
        """Returns how many partitions the topic has now."""
        found = self._asked(self._producer.list_topics, self.topic, SINK_ANSWER_SECONDS)
        return len(found.topics[self.topic].partitions)

    def move_cursor(self, number: int) -> None:
        """Lets the transaction commit the cursor with its records."""
        consumer = Consumer(self._group)
        try:
            ends = [TopicPartition(self.topic, 0, number)]
            group = consumer.consumer_group_metadata()
            self._asked(self._producer.send_offsets_to_transaction, ends, group, SINK_ANSWER_SECONDS)
        finally:
            consumer.close()

    def commit(self) -> None:
        """Commits the transaction. An error says that its end is not known."""
        for left in reversed(range(SINK_COMMIT_TRIES)):
            try:
                self._producer.commit_transaction(SINK_ANSWER_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable() or not left:
                    raise self._told(error.args[0]) from None
            else:
                return

    def abort(self) -> None:
        """Aborts the transaction, as far as the broker still answers."""
        try:
            self._producer.purge()
            self._producer.abort_transaction(SINK_ANSWER_SECONDS)
        except KafkaException:
            return  # the next relay ends it

    def _send(self, record: FeedRecord) -> None:
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    record.value,
                    record.key,
                    headers=record.headers,
                    timestamp=record.at_ms,
                    on_delivery=partial(self._keep_refusal, record),
                )
            except BufferError:
                self._asked(self._producer.poll, FULL_SECONDS)
            except KafkaException as error:
                self._keep_refusal(record, error.args[0], None)
                raise self._of_refused() from None
            else:
                return

    def _keep_refusal(self, record: FeedRecord, error: KafkaError | None, _message: Message | None) -> None:
        if error is not None:
            self._refused.append((len(record.value or b"") + len(record.key or b""), record, error))

    def _of_refused(self) -> Refusal:
        """Returns the error of the records that were not taken. A batch is refused whole, for its largest record."""
        for _, record, error in sorted(self._refused, key=itemgetter(0), reverse=True):
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                return BadData(f"change {record.number} is larger than a record may be on {self.topic}")
        _, record, error = self._refused[0]
        if error.code() == KafkaError.INVALID_RECORD:
            return BadData(
                f"{self.topic} takes no such record as change {record.number}, as a compacted one takes none without a key",
                next_command="lockstep doctor",
            )
        return self._away(error.str(), SlowSink) if error.code() == TIMED_OUT else self._told(error)

    def _asked(self, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except KafkaException as error:
            raise self._told(error.args[0]) from None
        except SystemError as error:  # from flush, when the client learns of a fatal error on its way
            raise self._told(self._fatal(error)) from None

    def _fatal(self, error: SystemError) -> KafkaError:
        """Returns the error that ended the producer: the one that flush met, or what the next call says."""
        if isinstance(error.__cause__, KafkaException):
            return error.__cause__.args[0]
        if (told := self._end_of_producer()) is None:
            raise error
        return told

    def _end_of_producer(self) -> KafkaError | None:
        """Returns why the producer has ended, or None if it has not."""
        try:
            self._producer.abort_transaction(SINK_ANSWER_SECONDS)
        except KafkaException as told:
            return told.args[0]
        return None

    def _told(self, error: KafkaError) -> Refusal:
        if error.code() == ENDED:  # a record that is refused by an ended producer does not say why it has ended
            error = self._end_of_producer() or error
        if error.code() in FENCED or "fenced" in error.str():  # behind the first call, librdkafka only repeats the text
            return Superseded(f"{self.topic}: a later relay has taken over, this one ends")
        if error.code() in DENIED:
            return Refusal(
                f"{self.topic}: the login may not send there: {error.str()}",
                next_command="grant it WRITE on the topic and the transactional id, and READ on the group of that name",
            )
        return self._away(error.str())

    def _away(self, why: str, kind: type[Unreachable] = Unreachable) -> Unreachable:
        return kind(
            f"Kafka at {self.broker.bootstrap} did not take the changes for {self.topic}: {self.broker.options.hidden(why)}",
            next_command="look at LOCKSTEP_KAFKA; for the embedded broker: lockstep dev status",
        )


def _sizes(largest: int | None) -> dict[str, int]:
    """Returns a producer's settings for a topic that takes batches of so many bytes."""
    if largest is None:
        return {}
    most = min(largest, MOST_BATCH)
    return {"message.max.bytes": max(most, LEAST_BATCH), "batch.size": max(most, 1)}
