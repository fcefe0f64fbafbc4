"""Compares a feed with the topic that it is sent to: its cursor, and every record that is still there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.group import mirrored
from lockstep.adapters.kafka.sink_topic import number_of
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.offsets import TopicPartition
from lockstep.core.pipeline.targets import message_key, topics_of
from lockstep.core.proof.verification import PromiseCheck, Wrong
from lockstep.ledger.feed import relays
from lockstep.ledger.feed.blank import erased_numbers
from lockstep.ledger.feed.outgoing import Outgoing
from lockstep.steps.feed.values import comparable, with_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.feed.feeds import Topic
    from lockstep.core.feed.relaying import Relayed
    from lockstep.core.offsets import TopicView
    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.core.registry import Registry

ANNOUNCED = "Kafka has nothing that was not announced"
TOPIC_IS_FEED = "the topic is the feed"
MARKERS_SECONDS, MARKER_LOOK_SECONDS = 10.0, 0.1  # an answer to a commit comes before Kafka has written its markers
Sent = tuple[bytes | None, object]  # a record's key, and its value in a form that compares


@dataclass(frozen=True, slots=True)
class SentTopic:
    """A feed's topic as it was before the ledger's snapshot: whatever is there was announced by then.

    `why_not` says why Kafka could not be asked. `view` is None unless the records are to be read.
    """

    target: Target
    topic: Topic
    before: Relayed | None
    cursor: int | None = None
    view: TopicView | None = None
    why_not: str = ""


def look_at_topics(conn: connection, broker: Broker, pipeline: Pipeline, *, deep: bool) -> list[SentTopic]:
    """Returns the state of each topic that a feed is sent to. Must come before the snapshot that it is compared with."""
    found = []
    for target, topic in topics_of(pipeline.targets):
        with transaction(conn, READER) as cur:
            before = relays.relay_of(cur, pipeline.name, target.table)
        if before is None:
            found.append(SentTopic(target, topic, None, why_not="no relay has been made yet"))
            continue
        at = TopicPartition(topic.name, 0)
        try:
            cursor = mirrored(broker, before.transactional_id, [at]).get(at)
            view = _with_markers(broker, topic.name) if deep else None
        except Refusal as refusal:
            if deep:
                raise
            found.append(SentTopic(target, topic, before, why_not=refusal.message))
        else:
            found.append(SentTopic(target, topic, before, cursor, view))
    return found


def _with_markers(broker: Broker, topic: str) -> TopicView:
    """Returns the topic once each transaction of the first look has ended, or as it is when time is up.

    Readers of committed records see nothing behind an open transaction, not even what a relay has committed.
    """
    view, until = broker.view(topic), time.monotonic() + MARKERS_SECONDS
    sent = broker.high_ends(view)
    while any(view.bounds[p].stable_end < sent[p] for p in view.bounds.keys() & sent) and time.monotonic() < until:
        time.sleep(MARKER_LOOK_SECONDS)
        view = broker.view(topic)
    return view


def topic_checks(
    cur: cursor, broker: Broker, pipeline: Pipeline, found: list[SentTopic], place: Callable[[], Registry | None]
) -> list[PromiseCheck]:
    """Returns the checks of the topics, within the ledger's snapshot."""
    checks = []
    for sent in found:
        now = relays.relay_of(cur, pipeline.name, sent.target.table)
        if sent.before is None or now is None or sent.why_not:
            checks.append(PromiseCheck(ANNOUNCED, ok=True, detail="not compared", left_out=sent.why_not))
            continue
        checks.append(_cursor_is_known(sent, sent.before, now))
        if sent.view is not None:
            known = sent.before, now
            checks.append(_records_are_changes(cur, broker, pipeline, sent, sent.view, known, place))
    return checks


def _cursor_is_known(sent: SentTopic, before: Relayed, now: Relayed) -> PromiseCheck:
    at = sent.cursor
    if at is None:
        left_out = "" if before.confirmed == before.began_at else f"{sent.topic.name}: Kafka has no cursor any more"
        return PromiseCheck(ANNOUNCED, ok=True, detail="nothing is sent, or no cursor is left", left_out=left_out)
    detail = f"{sent.topic.name} has the changes below number {at}"
    if at > now.next_number:
        return PromiseCheck(ANNOUNCED, ok=False, detail=f"{detail}, and the next one gets {now.next_number}")
    if at < before.confirmed:
        return PromiseCheck(
            ANNOUNCED, ok=False, detail=f"{detail}, and had acknowledged those below {before.confirmed}"
        )
    return PromiseCheck(ANNOUNCED, ok=True, detail=detail)


def _records_are_changes(
    cur: cursor,
    broker: Broker,
    pipeline: Pipeline,
    sent: SentTopic,
    view: TopicView,
    known: tuple[Relayed, Relayed],
    place: Callable[[], Registry | None],
) -> PromiseCheck:
    """Compares every record of the topic with its change: once, with its key and value, in order.

    `known` is the ledger's knowledge of the relay, before the look at the topic and in this snapshot.
    """
    before, now = known
    read = partial(comparable, topic=sent.topic, pipeline=pipeline.name, place=place)
    records = TopicRecords(sent.topic.name, may_repeat=relays.was_restarted(cur, sent.target.table))
    for partition, bounds in sorted(view.bounds.items()):
        for message in broker.records(view.topic, partition, bounds.log_start, bounds.stable_end):
            records.take(message, read)
    outgoing = Outgoing.of(cur, sent.target.table, sent.topic.shape, message_key(sent.target))
    outgoing = with_encoder(outgoing, sent.topic, pipeline.name, place)
    shortened, begin = any(bounds.log_start for bounds in view.bounds.values()), max(now.kept_from, now.began_at)
    changes = (
        (number, [(key, read(value)) for key, value in its])
        for number, its in _by_number(outgoing.records(cur, begin, now.next_number))
    )
    until = begin if shortened else before.confirmed
    erased = erased_numbers(cur, sent.target.table, begin)
    records.compare(changes, begin, until, compacts=broker.compacts(view.topic), erased=erased)
    left_out = [f"changes below {begin}: they are trimmed, or of before the relay began anew"] if begin else []
    left_out += [f"{view.topic}: retention has removed records"] if shortened else []
    left_out += [f"{len(erased)} changes that have lost a row to an erasure"] if erased else []
    told = f"{records.count} records of {view.topic}"
    return records.wrong.check(TOPIC_IS_FEED, told=told, left_out="; ".join(left_out))


class TopicRecords:
    """The records of a topic by the number of their change. A record that no relay has sent is wrong at once.

    Changes may stand there a second time if a person has let a relay begin anew.
    """

    def __init__(self, name: str, *, may_repeat: bool) -> None:
        self.name, self.count = name, 0
        self.wrong = Wrong()
        self.of: dict[int, list[Sent]] = {}
        self._may_repeat = may_repeat
        self._numbers: dict[int, list[int]] = {}  # of each partition, in its order

    def take(self, message: Any, read: Callable[[bytes | None], object]) -> None:
        """Takes a record of a partition, in its order."""
        self.count += 1
        where, partition = f"{self.name}-{message.partition()} offset {message.offset()}", message.partition()
        number = number_of(message)
        if number is None:
            self.wrong.add(f"{where}: no relay has sent this record")
            return
        numbers = self._numbers.setdefault(partition, [-1])
        is_again = number < numbers[-1] or (number == numbers[-1] and message.value() is not None)
        if is_again and not self._may_repeat:
            self.wrong.add(f"{where}: change {number} stands behind change {numbers[-1]}")
            return
        while is_again and numbers[-1] >= number:
            self.of.pop(numbers.pop(), None)
        if numbers[-1] != number:
            numbers.append(number)
        self.of.setdefault(number, []).append((message.key(), read(message.value())))

    def compare(
        self,
        changes: Iterable[tuple[int, list[Sent]]],
        begin: int,
        until: int,
        *,
        compacts: bool,
        erased: Collection[int] = (),
    ) -> None:
        """Compares with the feed's changes from `begin` on. Those below `until` must be there.

        Compaction leaves the newest record of each key, and takes tombstones, too. `erased` changes may be there as they
        were sent, as they are now, or not at all.
        """
        newest: dict[bytes | None, int] = {}
        missing: list[tuple[int, Sent]] = []
        for number, its in changes:
            newest[its[-1][0]] = number
            there = self.of.pop(number, None)
            if number in erased:
                continue
            if there is None:
                missing += [(number, its[-1])] if number < until else []
            elif there != its and not (compacts and there == its[-1:]):
                self.wrong.add(f"change {number} has another key or value in {self.name}")
        for number, (key, value) in missing:
            if not compacts or (newest[key] == number and value is not None):
                self.wrong.add(f"change {number} is not in {self.name}")
        for number in sorted(number for number in self.of if number >= begin and number not in erased):
            self.wrong.add(f"{self.name} has a change {number}, which was never announced")


def _by_number(records: Iterator[Any]) -> Iterator[tuple[int, list[tuple[bytes | None, bytes | None]]]]:
    """Yields each change with its records: a tombstone may follow the document of a deletion."""
    number = -1
    its: list[tuple[bytes | None, bytes | None]] = []
    for record in records:
        if record.number != number and its:
            yield number, its
            its = []
        number = record.number
        its.append((record.key, record.value))
    if its:
        yield number, its
