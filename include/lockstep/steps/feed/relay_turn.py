"""Makes it one relay's turn: its lease, the end of all earlier relays, and the place where it goes on."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.sink import SinkWriter
from lockstep.adapters.kafka.sink_topic import newest_number
from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.adapters.processes import is_gone
from lockstep.core.errors import Refusal
from lockstep.core.feed.relaying import SinkLog
from lockstep.core.planning.decisions import Blocked
from lockstep.faults import reach
from lockstep.ledger.feed import relays
from lockstep.ledger.feed.blank import erased_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.feed.feeds import Topic
    from lockstep.core.feed.relaying import Relayed
    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.steps.context import Context

RELAY_LEASE_SECONDS = 90.0  # longer than one transaction may take


@dataclass(slots=True)
class HeldRelay:
    """A relay whose turn it is: it has fenced all earlier ones, and its token is the newest."""

    at: Context
    target: Target
    writer: SinkWriter
    token: int
    log: SinkLog | None = None  # that the transactions go to, once the place is known


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


@contextmanager
def relay_lease(at: Context, target: Target, owner: str) -> Iterator[str | None]:
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


def take_over(at: Context, target: Target, topic: Topic, known: Relayed, owner: str) -> HeldRelay:
    """Ends the transaction of an earlier relay before anything is read, and draws a token (E16)."""
    writer = SinkWriter(at.broker, topic.name, known.transactional_id)
    writer.fence()
    reach("relay.fenced")
    with transaction(at.conn, PLANNER) as cur:
        token = relays.draw_token(cur, target.table, owner)
    return HeldRelay(at, target, writer, token)


def place_of(held: HeldRelay, known: Relayed, topic: Topic) -> int | Blocked:
    """Returns the number to go on at, by the cursor in Kafka. Writes down what is confirmed by it (E17)."""
    view = held.at.broker.view(topic.name)
    log = SinkLog.seen(view)
    other = known.other_sink(log, topic.name)
    if other is not None:
        return other
    held.log = log
    number = known.goes_on(
        held.writer.cursor(), lambda: newest_number(held.at.broker, view), lambda begin: _erased(held, begin)
    )
    reach("relay.cursor")
    if isinstance(number, Blocked):
        return number
    with transaction(held.at.conn, PLANNER) as cur:
        if known.log is None:
            relays.know_sink(cur, held.target.table, held.token, log)
        if number != known.confirmed or known.intent is not None:
            relays.confirm_sent(cur, held.target.table, held.token, number)
    return number


def _erased(held: HeldRelay, begin: int) -> set[int]:
    with transaction(held.at.conn, READER) as cur:
        return erased_numbers(cur, held.target.table, begin)
