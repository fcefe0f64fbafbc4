"""Tells where a relay would go on, without a transaction of Kafka: reads its cursor, and ends no other relay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.group import mirrored
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.feed.relaying import SinkLog
from lockstep.core.offsets import TopicPartition
from lockstep.core.planning.decisions import Blocked
from lockstep.ledger.feed import relays

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.feed.relaying import Relayed

LOOKS_AT_A_RELAY = 3  # at a relay that moves on while it is looked at


@dataclass(frozen=True, slots=True)
class RelayLook:
    """A look at a relay: its cursor in Kafka, and what a person must decide. `unknown` says why neither is known."""

    cursor: int | None = None
    blocked: Blocked | None = None
    unknown: str | None = None


def look_at_relay(conn: connection, broker: Broker, pipeline: str, table: str) -> RelayLook:
    """Returns what the next relay of a feed would find in the topic that was written (E17).

    Reads no record: without a cursor, the next relay looks at the topic's end itself.
    """
    for _ in range(LOOKS_AT_A_RELAY):
        before = _known(conn, pipeline, table)
        if before is None:
            return RelayLook(unknown="no relay has been made yet")
        try:
            view = broker.view(before.topic)
            at = TopicPartition(before.topic, 0)
            cursor = mirrored(broker, before.transactional_id, [at]).get(at)
        except Unreachable as away:
            return RelayLook(unknown=away.message)
        except Refusal as refusal:
            return RelayLook(blocked=Blocked(refusal.message, refusal.next_command or f"lockstep relay {pipeline}"))
        if _known(conn, pipeline, table) == before:  # an older state may differ from Kafka's for good reason
            return _judged(before, SinkLog.seen(view), cursor)
    return RelayLook(unknown="the relay moves on")


def _judged(known: Relayed, log: SinkLog, cursor: int | None) -> RelayLook:
    other = known.other_sink(log, known.topic)
    if other is not None:
        return RelayLook(cursor, other)
    if cursor is None and not known.is_untouched:
        return RelayLook(unknown="Kafka has no cursor any more: the next relay looks at the topic's end")
    number = known.goes_on(cursor, lambda: None)
    return RelayLook(cursor, number if isinstance(number, Blocked) else None)


def _known(conn: connection, pipeline: str, table: str) -> Relayed | None:
    with transaction(conn, READER) as cur:
        return relays.relay_of(cur, pipeline, table)
