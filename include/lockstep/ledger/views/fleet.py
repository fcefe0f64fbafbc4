"""Reads what a look at many pipelines rests on, in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.fleet.glance import Known
from lockstep.core.health.ownership import Owner, Table
from lockstep.core.offsets import Stream, TopicPartition
from lockstep.ledger.batch.plan import pause_words
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.views", "fleet")


def facts_of_all(cur: cursor, names: Iterable[str]) -> dict[str, Known]:
    """Returns the facts of each of these pipelines, by name. Omits those that were never planned."""
    cur.execute(Q["known"], {"names": list(names)})
    return {row.name: _known(row) for row in every(cur)}


def _known(row: Any) -> Known:
    streams = tuple(Stream(s[0], TopicPartition(s[1], s[2]), *s[3:]) for s in row.streams or ())
    return Known(
        streams,
        bound_by=() if row.document is None else (row.document,),
        pause=pause_words(row if row.who else None) if row.paused else None,
        owns={Table(store, table): Owner(row.name, tuple(shared)) for store, table, shared in row.owned or ()},
        needs_plan=row.needs_plan,
        forgotten=row.forgotten,
    )
