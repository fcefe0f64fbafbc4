"""Sends a feed to its topic: each change once, in order, by transactions that carry the cursor."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.sink import SinkWriter
from lockstep.adapters.kafka.sink_topic import newest_number
from lockstep.adapters.postgres import PLANNER, READER, snapshot, transaction
from lockstep.adapters.processes import is_gone
from lockstep.core.errors import BadData, Refusal
from lockstep.core.feed.relaying import MOST_SENT, SinkLog
from lockstep.core.pipeline.targets import message_key
from lockstep.core.planning.decisions import Blocked, Busy
from lockstep.faults import reach
from lockstep.ledger.changes.decisions import record
from lockstep.ledger.feed import relays
from lockstep.ledger.feed.outgoing import Outgoing
from lockstep.steps.feed.values import with_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.core.changes.person import Person
    from lockstep.core.feed.feeds import Topic
    from lockstep.core.feed.relaying import Relayed
    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.steps.context import Context

RELAY_LEASE_SECONDS = 90.0  # longer than one transaction may take


@dataclass(frozen=True, slots=True)
class RelayReport:
    """The end of one relay: how many changes it sent in how many transactions, and why it went no further."""

    relayed: Relayed
    sent: int = 0
    transactions: int = 0
    stopped: Blocked | Busy | None = None


@dataclass(slots=True)
class _Held:
    """A relay whose turn it is: it has fenced all earlier ones, and its token is the newest."""

    at: Context
    target: Target
    writer: SinkWriter
    token: int


def relay(
    at: Context, pipeline: Pipeline, target: Target, owner: str, say: Callable[[int], None] = lambda _: None
) -> RelayReport:
    """Sends what the feed has and the topic has not. Calls `say` with the number of changes of each transaction.

    Raises `Refusal` if the topic or the relay is not there, and `Superseded` if a later relay takes over.
    """
    topic, known = _wanted(at, pipeline, target)
    with _lease(at, target, owner) as holder:
        if holder is not None:
            return RelayReport(known, stopped=Busy(None, f"{target.table}: {holder} sends its changes"))
        held = _take_over(at, target, topic, known, owner)
        known = require_relay(at, pipeline, target)
        number = _place(held, known, topic)
        if isinstance(number, Blocked):
            return RelayReport(known, stopped=number)
        return _send_all(held, pipeline, topic, number, say)


def restart(at: Context, pipeline: Pipeline, target: Target, owner: str, number: int, person: Person) -> Relayed:
    """Lets the relay begin anew at a number, by a person's decision, on the topic that the definition names (E21).

    Raises `Refusal` for a number that is trimmed or not given yet, and while another relay works.
    """
    topic, known = _wanted(at, pipeline, target)
    if not known.kept_from <= number <= known.next_number:
        raise Refusal(
            f"{pipeline.name}: {target.table} has the changes [{known.kept_from}, {known.next_number}), {number} is asked for",
            next_command=f"lockstep changes {pipeline.name} --target {target.table}",
        )
    with _lease(at, target, owner) as holder:
        if holder is not None:
            raise Refusal(f"{target.table}: {holder} sends its changes", next_command=f"lockstep relay {pipeline.name}")
        held = _take_over(at, target, topic, known, owner)
        log = SinkLog.seen(at.broker.view(topic.name))
        with transaction(at.conn, PLANNER) as cur:
            known = relays.relay_of(cur, pipeline.name, target.table) or known
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


def require_relay(at: Context, pipeline: Pipeline, target: Target) -> Relayed:
    """Returns the ledger's knowledge of the relay. Raises `Refusal` before `migrate` has made it."""
    with transaction(at.conn, READER) as cur:
        known = relays.relay_of(cur, pipeline.name, target.table)
    if known is None:
        raise Refusal(
            f"{pipeline.name}: the ledger does not know yet that the feed of {target.table} is sent to a topic",
            next_command=f"lockstep migrate {pipeline.name}",
        )
    return known


def _wanted(at: Context, pipeline: Pipeline, target: Target) -> tuple[Topic, Relayed]:
    """Returns the topic of the definition and what the ledger knows. Raises `Refusal` if one of them is not there."""
    topic = topic_of(pipeline, target)
    known = require_relay(at, pipeline, target)
    at.broker.view(topic.name)
    return topic, known


@contextmanager
def _lease(at: Context, target: Target, owner: str) -> Iterator[str | None]:
    """Holds the lease for the block, also one of an owner that has ended. Yields the other owner if one lives."""
    with transaction(at.conn, PLANNER) as cur:
        holder = relays.hold(cur, target.table, owner, RELAY_LEASE_SECONDS)
        if holder is not None and is_gone(holder):
            holder = relays.hold(cur, target.table, owner, RELAY_LEASE_SECONDS, gone=holder)
    try:
        yield holder
    finally:
        if holder is None:
            with transaction(at.conn, PLANNER) as cur:
                relays.release(cur, target.table, owner)


def _take_over(at: Context, target: Target, topic: Topic, known: Relayed, owner: str) -> _Held:
    """Ends the transaction of an earlier relay before anything is read, and draws a token (E16)."""
    writer = SinkWriter(at.broker, topic.name, known.transactional_id)
    writer.fence()
    reach("relay.fenced")
    with transaction(at.conn, PLANNER) as cur:
        token = relays.draw_token(cur, target.table, owner)
    return _Held(at, target, writer, token)


def _place(held: _Held, known: Relayed, topic: Topic) -> int | Blocked:
    """Returns the number to go on at, by the cursor in Kafka. Writes down what is confirmed by it (E17)."""
    view = held.at.broker.view(topic.name)
    log = SinkLog.seen(view)
    other = known.other_sink(log, topic.name)
    if other is not None:
        return other
    number = known.goes_on(held.writer.cursor(), lambda: newest_number(held.at.broker, view))
    reach("relay.cursor")
    if isinstance(number, Blocked):
        return number
    with transaction(held.at.conn, PLANNER) as cur:
        if known.log is None:
            relays.know_sink(cur, held.target.table, held.token, log)
        if number != known.confirmed or known.intent is not None:
            relays.confirm_sent(cur, held.target.table, held.token, number)
    return number


def _send_all(held: _Held, pipeline: Pipeline, topic: Topic, number: int, say: Callable[[int], None]) -> RelayReport:
    sent = transactions = 0
    stopped: Blocked | None = None
    while True:
        with transaction(held.at.conn, READER) as cur:
            outgoing = Outgoing.of(cur, held.target.table, topic.shape, message_key(held.target))
            until = outgoing.end_of_portion(cur, number, MOST_SENT)
        if until == number:
            break
        try:
            sent += _send(held, with_encoder(outgoing, topic, pipeline.name, held.at.find_registry), number, until)
        except BadData as error:
            stopped = Blocked(
                f"{held.target.table}: {error.message}",
                error.next_command or f"raise max.message.bytes of {topic.name}, then lockstep relay {pipeline.name}",
            )
            break
        transactions, number = transactions + 1, until
        say(sent)
    return RelayReport(require_relay(held.at, pipeline, held.target), sent, transactions, stopped)


def _send(held: _Held, outgoing: Outgoing, begin: int, until: int) -> int:
    """Sends the changes in [begin, until) and the cursor behind them in one transaction of Kafka (E18).

    Returns how many it sent. It steps over those that an erasure has made blank.
    """
    table, writer = held.target.table, held.writer
    with transaction(held.at.conn, PLANNER) as cur:
        relays.intend(cur, table, held.token, until, RELAY_LEASE_SECONDS)
    reach("relay.intent")
    try:
        writer.begin()
        reach("relay.begun")
        with snapshot(held.at.conn, READER) as cur, closing(outgoing.records(cur, begin, until)) as records:
            sent = writer.send(records)
        reach("relay.mid")
        writer.flush()
        reach("relay.flushed")
        writer.move_cursor(until)
        reach("relay.offsets")
    except Refusal:
        writer.abort()
        raise
    writer.commit()
    reach("relay.committed")
    with transaction(held.at.conn, PLANNER) as cur:
        relays.confirm_sent(cur, table, held.token, until)
    reach("relay.confirmed")
    return sent
