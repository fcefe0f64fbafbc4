"""Tells where a relay would go on, without a transaction of Kafka: reads its cursor, and ends no other relay."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.group import mirrored
from lockstep.adapters.kafka.sink_topic import newest_number
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.changes.restored import relay_need
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.feed.relaying import RelayLook, SinkLog
from lockstep.core.offsets import TopicPartition
from lockstep.core.pipeline.targets import topics_of
from lockstep.core.planning.decisions import Blocked
from lockstep.ledger.feed import relays
from lockstep.ledger.feed.blank import erased_numbers

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.feed.relaying import Relayed
    from lockstep.core.pipeline.definition import Pipeline

LOOKS_AT_A_RELAY = 3  # at a relay that moves on while it is looked at


def look_at_relay(conn: connection, broker: Broker, pipeline: str, table: str, *, read_end: bool = False) -> RelayLook:
    """Returns what the next relay of a feed would find in the topic that was written (E17).

    Reads no record unless `read_end` asks for it: without a cursor, the topic's last change is then used.
    """
    for _ in range(LOOKS_AT_A_RELAY):
        before = _known(conn, pipeline, table)
        if before is None:
            return RelayLook(unknown="no relay has been made yet")
        try:
            view = broker.view(before.topic)
            at = TopicPartition(before.topic, 0)
            cursor = mirrored(broker, before.transactional_id, [at]).get(at)
            last = newest_number(broker, view) if read_end and cursor is None else None
        except Unreachable as away:
            return RelayLook(unknown=away.message)
        except Refusal as refusal:
            return RelayLook(blocked=Blocked(refusal.message, refusal.next_command or f"lockstep relay {pipeline}"))
        if _known(conn, pipeline, table) == before:  # an older state may differ from Kafka's for good reason
            found = _judged(conn, before, SinkLog.seen(view), cursor, last, read_end=read_end)
            return replace(found, topic=before.topic)
    return RelayLook(unknown="the relay moves on")


def _judged(
    conn: connection, known: Relayed, log: SinkLog, cursor: int | None, last: int | None, *, read_end: bool
) -> RelayLook:
    other = known.other_sink(log, known.topic)
    if other is not None:
        return RelayLook(cursor, other)
    if cursor is None and not known.is_untouched and not read_end:
        return RelayLook(unknown="Kafka has no cursor any more: the next relay looks at the topic's end")

    def erased(begin: int) -> set[int]:
        with transaction(conn, READER) as cur:
            return erased_numbers(cur, known.target, begin)

    number = known.goes_on(cursor, lambda: last, erased)
    at = last + 1 if cursor is None and last is not None else cursor
    blocked = number if isinstance(number, Blocked) else None
    return RelayLook(at, blocked, is_ahead=blocked is not None and at is not None and at > known.confirmed)


def _known(conn: connection, pipeline: str, table: str) -> Relayed | None:
    with transaction(conn, READER) as cur:
        return relays.relay_of(cur, pipeline, table)


def relay_needs(conn: connection, broker: Broker, pipeline: Pipeline) -> list[str]:
    """Returns what each topic of a restored ledger's feeds has, and how its relay is led on."""
    found = []
    for target, _ in topics_of(pipeline.targets):
        look = look_at_relay(conn, broker, pipeline.name, target.table, read_end=True)
        known = _known(conn, pipeline.name, target.table)
        found.append(relay_need(pipeline.name, target.table, look, known.next_number if known else 0))
    return found
