"""Keeps what the ledger knows of a relay: its topic, what is confirmed, and what is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition, Superseded
from lockstep.core.feed.relaying import Relayed, SinkLog
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import maybe

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.feed.feeds import Feed

Q = queries("lockstep.ledger.feed", "relays")


def keep_relay(cur: cursor, pipeline: str, table: str, feed: Feed) -> None:
    """Writes down that a feed is sent to a topic, as the ledger's owner. Its first number is the oldest that is kept.

    Raises `BadDefinition` if a topic was there and the definition has none.
    """
    if feed.to is not None:
        cur.execute(Q["open_relay"], {"target": table, "topic": feed.to.name})
        return
    cur.execute(Q["relay"], {"target": table})
    there = maybe(cur)
    if there is not None:
        raise BadDefinition(
            f"{pipeline}: the feed of {table} is sent to {there.topic}, and the definition says nothing of it: it would end "
            "without a word",
            next_command=f"say Feed(..., to=Topic({there.topic!r})), then lockstep migrate {pipeline}",
        )


def relay_of(cur: cursor, pipeline: str, table: str) -> Relayed | None:
    """Returns the ledger's knowledge of a target's relay, or None before `migrate` has made it."""
    cur.execute(Q["relay"], {"target": table})
    row = maybe(cur)
    if row is None:
        return None
    log = SinkLog(row.cluster_id, row.topic, row.topic_id, row.partitions) if row.topic_id else None
    numbers = (row.confirmed, row.intent, row.kept_from, row.next_number, row.began_at)
    return Relayed(pipeline, table, row.topic, row.transactional_id, log, *numbers)


def was_restarted(cur: cursor, table: str) -> bool:
    """Returns True if a person has let the relay begin anew, so that changes may stand in the topic twice."""
    cur.execute(Q["was_restarted"], {"target": table})
    return maybe(cur) is not None


def hold(cur: cursor, table: str, owner: str, seconds: float, gone: str | None = None) -> str | None:
    """Takes the relay's lease. Returns the owner who has it, and None if it is taken now.

    `gone` is an owner that is known to have ended.
    """
    cur.execute(Q["hold"], {"target": table, "owner": owner, "seconds": seconds, "gone": gone})
    if cur.rowcount == 1:
        return None
    cur.execute(Q["relay"], {"target": table})
    other = maybe(cur)
    return str(other.held_by) if other else owner


def draw_token(cur: cursor, table: str, owner: str) -> int:
    """Returns the token of the relay that has just fenced all earlier ones (E16)."""
    cur.execute(Q["draw_token"], {"target": table, "owner": owner})
    row: Any = maybe(cur)
    return int(row.token)


def is_newest(cur: cursor, table: str, token: int) -> bool:
    """Returns True if no later relay has drawn a token."""
    cur.execute(Q["relay"], {"target": table})
    row: Any = maybe(cur)
    return bool(row.token == token)


def know_sink(cur: cursor, table: str, token: int, log: SinkLog) -> None:
    """Writes down which log the first transaction goes to."""
    values = {"cluster_id": log.cluster_id, "topic_id": log.topic_id, "partitions": log.partitions}
    _move(cur, "know_sink", table, token, **values)


def intend(cur: cursor, table: str, token: int, until: int, seconds: float) -> None:
    """Writes down that a transaction up to this number begins, and holds the lease for longer."""
    _move(cur, "intend", table, token, until=until, seconds=seconds)


def confirm_sent(cur: cursor, table: str, token: int, until: int) -> None:
    """Writes down that the changes below this number are in Kafka."""
    _move(cur, "confirm", table, token, until=until)


def release(cur: cursor, table: str, owner: str) -> None:
    """Gives the lease back. Does nothing if a later relay has it."""
    cur.execute(Q["release"], {"target": table, "owner": owner})


def begin_anew(cur: cursor, relayed: Relayed, token: int, topic: str, log: SinkLog, number: int, decision: int) -> None:
    """Lets the relay begin anew at a number, by a person's decision (E21)."""
    values = {"cluster_id": log.cluster_id, "topic_id": log.topic_id, "partitions": log.partitions}
    _move(cur, "begin_anew", relayed.target, token, topic=topic, number=number, decision=decision, **values)


def _move(cur: cursor, name: str, table: str, token: int, **values: object) -> None:
    cur.execute(Q[name], {"target": table, "token": token, **values})
    if cur.rowcount != 1:
        raise Superseded(f"{table}: a later relay has taken over, this one ends")
