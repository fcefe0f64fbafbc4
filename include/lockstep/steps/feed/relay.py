"""Sends a feed to its topic: each change once, in order, by transactions that carry the cursor."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.sink import TRANSACTION_SECONDS
from lockstep.adapters.postgres import PLANNER, READER, snapshot, transaction
from lockstep.core.errors import BadData, Refusal, SlowSink, Superseded
from lockstep.core.feed.portions import LEAST_SENT_BYTES, MOST_SENT, MOST_SENT_BYTES, Portion
from lockstep.core.feed.relaying import SinkLog
from lockstep.core.pipeline.targets import message_key
from lockstep.core.planning.decisions import Blocked, Busy
from lockstep.faults import reach
from lockstep.ledger.changes.decisions import record
from lockstep.ledger.feed import relays
from lockstep.ledger.feed.changes import hold_trimming
from lockstep.ledger.feed.outgoing import Outgoing
from lockstep.steps.feed.relay_turn import RELAY_LEASE_SECONDS, place_of, relay_lease, require_relay, take_over
from lockstep.steps.feed.values import with_encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.changes.person import Person
    from lockstep.core.feed.feeds import Topic
    from lockstep.core.feed.relaying import Relayed
    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.steps.context import Context
    from lockstep.steps.feed.relay_turn import HeldRelay


@dataclass(frozen=True, slots=True)
class RelayReport:
    """The end of one relay: how many changes it sent in how many transactions, and why it went no further.

    `began` is the number that it went on at, or None if it found no place.
    """

    relayed: Relayed
    sent: int = 0
    transactions: int = 0
    stopped: Blocked | Busy | None = None
    began: int | None = None


@dataclass(slots=True)
class _Done:
    """The changes that a relay has sent so far, and the bytes that it puts into one transaction."""

    sent: int = 0
    transactions: int = 0
    began: int | None = None
    most_bytes: int = field(default_factory=lambda: MOST_SENT_BYTES)


def relay(
    at: Context, pipeline: Pipeline, target: Target, owner: str, say: Callable[[int], None] = lambda _: None
) -> RelayReport:
    """Sends what the feed has and the topic has not. Calls `say` with the number of changes of each transaction.

    Raises `Refusal` if the topic or the relay is not there, and `Superseded` if a later relay takes over.
    """
    topic, known = _wanted(at, pipeline, target)
    with relay_lease(at, target, owner) as holder:
        if holder is not None:
            return RelayReport(known, stopped=Busy(None, f"{target.table}: {holder} sends its changes"))
        done = _Done()
        while True:
            held = take_over(at, target, topic, known, owner)
            try:
                stopped = _send_all(held, pipeline, topic, require_relay(at, pipeline, target), done, say)
            except (SlowSink, Superseded) as error:
                slow = _of_kafkas_end(held, error) if isinstance(error, Superseded) else error
                if isinstance(slow, Superseded) or done.most_bytes <= LEAST_SENT_BYTES:
                    raise slow from None
                done.most_bytes //= 2
            else:
                known = require_relay(at, pipeline, target)
                return RelayReport(known, done.sent, done.transactions, stopped, done.began)


def restart(at: Context, pipeline: Pipeline, target: Target, owner: str, number: int, person: Person) -> Relayed:
    """Lets the relay begin anew at a number, by a person's decision, on the topic that the definition names (E21).

    Raises `Refusal` for a number that is trimmed or not given yet, and while another relay works.
    """
    topic, known = _wanted(at, pipeline, target)
    _require_kept(known, number)
    with relay_lease(at, target, owner) as holder:
        if holder is not None:
            raise Refusal(f"{target.table}: {holder} sends its changes", next_command=f"lockstep relay {pipeline.name}")
        held = take_over(at, target, topic, known, owner)
        log = SinkLog.seen(at.broker.view(topic.name))
        with transaction(at.conn, PLANNER) as cur:
            hold_trimming(cur, target.table)
            known = relays.relay_of(cur, pipeline.name, target.table) or known
            _require_kept(known, number)
            detail = {"target": target.table, "number": number, "confirmed": known.confirmed, "topic": topic.name}
            decision = record(cur, pipeline.name, "restart-relay", person, detail)
            relays.begin_anew(cur, known, held.token, topic.name, log, number, decision)
            reach("relay.restarted")
        reach("relay.decided")
        held.writer.begin()
        held.writer.move_cursor(number)
        held.writer.commit()
    return require_relay(at, pipeline, target)


def topic_of(pipeline: Pipeline, target: Target) -> Topic:
    """Returns the topic that a target's feed is sent to. Raises `Refusal` if it is sent nowhere."""
    if target.feed is None or target.feed.to is None:
        raise Refusal(
            f"{pipeline.name}: the changes of {target.table} are sent to no topic",
            next_command=f"say feed=Feed(to=Topic('NAME')), then lockstep migrate {pipeline.name}",
        )
    return target.feed.to


def _require_kept(known: Relayed, number: int) -> None:
    if not known.kept_from <= number <= known.next_number:
        raise Refusal(
            f"{known.pipeline}: {known.target} has the changes [{known.kept_from}, {known.next_number}), {number} is asked for",
            next_command=f"lockstep changes {known.pipeline} --target {known.target}",
        )


def _wanted(at: Context, pipeline: Pipeline, target: Target) -> tuple[Topic, Relayed]:
    """Returns the topic of the definition and what the ledger knows. Raises `Refusal` if one of them is not there."""
    topic = topic_of(pipeline, target)
    known = require_relay(at, pipeline, target)
    at.broker.view(topic.name)
    return topic, known


def _send_all(
    held: HeldRelay, pipeline: Pipeline, topic: Topic, known: Relayed, done: _Done, say: Callable[[int], None]
) -> Blocked | None:
    """Sends transactions until the feed has no more. Returns why it stopped before."""
    number = place_of(held, known, topic)
    if done.began is None and not isinstance(number, Blocked):
        done.began = number
    while not isinstance(number, Blocked):
        with transaction(held.at.conn, READER) as cur:
            outgoing = Outgoing.of(cur, held.target.table, topic.shape, message_key(held.target))
            until = outgoing.end_of_portion(cur, number, MOST_SENT)
        if until == number:
            return None
        try:
            outgoing = with_encoder(outgoing, topic, pipeline.name, held.at.find_registry)
            number = _send(held, known, outgoing, number, until, done)
        except BadData as error:
            return Blocked(
                f"{held.target.table}: {error.message}",
                error.next_command or f"raise max.message.bytes of {topic.name}, then lockstep relay {pipeline.name}",
            )
        if not isinstance(number, Blocked):
            say(done.sent)
    return number


def _send(held: HeldRelay, known: Relayed, outgoing: Outgoing, begin: int, until: int, done: _Done) -> int | Blocked:
    """Sends changes from `begin` on, and the cursor behind them, in one transaction of Kafka (E18). Returns its end.

    It steps over those that an erasure has made blank. Sends nothing if others are missing.
    """
    table, writer = held.target.table, held.writer
    _intend(held, until)
    reach("relay.intent")
    try:
        writer.begin()
        reach("relay.begun")
        with snapshot(held.at.conn, READER) as cur, closing(outgoing.records(cur, begin, until)) as records:
            portion = Portion(records, until, done.most_bytes)
            sent = writer.send(portion)
            missing = portion.until - begin - sent - outgoing.number_of_erased(cur, begin, portion.until)
        reach("relay.mid")
        if missing:
            writer.abort()
            return known.blocked(f"{missing} of the changes [{begin}, {portion.until}) are not there")
        if portion.until != until:
            _intend(held, portion.until)
        writer.flush()
        reach("relay.flushed")
        if (other := _grown(held, known)) is not None:
            writer.abort()
            return other
        writer.move_cursor(portion.until)
        reach("relay.offsets")
    except Refusal:
        writer.abort()
        raise
    writer.commit()
    reach("relay.committed")
    with transaction(held.at.conn, PLANNER) as cur:
        relays.confirm_sent(cur, table, held.token, portion.until)
    reach("relay.confirmed")
    done.sent, done.transactions = done.sent + sent, done.transactions + 1
    return portion.until


def _intend(held: HeldRelay, until: int) -> None:
    with transaction(held.at.conn, PLANNER) as cur:
        relays.intend(cur, held.target.table, held.token, until, RELAY_LEASE_SECONDS)


def _grown(held: HeldRelay, known: Relayed) -> Blocked | None:
    """Returns why the records may be in other partitions than earlier ones of their keys, or None.

    The client may hear of new partitions at any time, so it is asked behind the last record.
    """
    if held.log is None:
        return None
    log = replace(held.log, partitions=held.writer.partitions())
    return replace(known, log=held.log).other_sink(log, held.writer.topic)


def _of_kafkas_end(held: HeldRelay, fenced: Superseded) -> Refusal:
    """Returns the error of a writer that was fenced. If no later relay came, Kafka itself ended the transaction."""
    with transaction(held.at.conn, READER) as cur:
        if not relays.is_newest(cur, held.target.table, held.token):
            return fenced
    return SlowSink(
        f"{held.writer.topic}: Kafka ended the transaction, as one that takes longer than {TRANSACTION_SECONDS} s",
        next_command="look at LOCKSTEP_KAFKA; for the embedded broker: lockstep dev status",
    )
