"""Orders the records of a key by their place in the source's log, where change records have one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.core.records import SOURCE_ORDER
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import maybe, one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.targets.payload import Payload
    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets", "source_order")
MOST_DISORDER_MILLIS = 3_600_000  # clocks of a source may differ by so much


def source_parts(cur: cursor, rows: Rows, columns: Payload, key: tuple[str, ...]) -> dict[str, Any]:
    """Returns the pieces of a publish's statements that go by the source's log."""
    types = dict(zip(columns.names, columns.types, strict=True))
    cur.execute(sql.SQL(Q["has_unplaced"]).format(rows=rows.source))
    placed = columns.staged
    casts = [sql.SQL("t.{}::{}").format(sql.Identifier(name), sql.SQL(types[name])) for name in key]
    values = sql.SQL(", ").join(casts)
    if one(cur).yes:
        others = [name for name in columns.names if name != SOURCE_ORDER]
        its = type(columns)(tuple(others), tuple(types[name] for name in others)).staged
        window = sql.SQL(Q["placed"]).format(staged_key_values=values)
        placed = sql.SQL("{}, {}").format(its, window)
    same = [sql.SQL("{} = n.{}").format(cast, sql.Identifier(name)) for cast, name in zip(casts, key, strict=True)]
    return {
        "placed": placed,
        "staged_key_values": values,
        "newest_first": sql.SQL(Q["newest_first"]),
        "order": sql.SQL("_source_order desc nulls last,"),
        "staged_order": sql.SQL(", t._source_order"),
        "before_newest": sql.SQL(Q["before_newest"]).format(same_staged_key=sql.SQL(" and ").join(same)),
        "no_order": sql.SQL("n._source_order is null and not n._deleted"),
        "dead": sql.SQL(Q["dead_by_source"]),
        "tombstone_order": sql.SQL(', "order"'),
        "deleted_order": sql.SQL(", n._source_order"),
        "keep_order": sql.SQL(Q["keep_order"]),
    }


def place_tombstones(cur: cursor, parts: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """Gives an order to tombstones that came without their deletion. Returns how many have done their work before."""
    cur.execute(sql.SQL(Q["drop_seconds"]).format(**parts), values)
    dropped = cur.rowcount
    cur.execute(sql.SQL(Q["place_by_rows"]).format(**parts))
    return dropped


def remember_deletions(cur: cursor, parts: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Remembers the last deletion of each stream, by which a later batch knows its tombstone again."""
    cur.execute(sql.SQL(Q["remember_last"]).format(**parts), values)


def refuse_new_log(cur: cursor, parts: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Refuses changes that are older by their place and younger by their time than what is there.

    The source's log has begun again, and its places say nothing about the rows. They would lose every change.
    """
    for query, order in (("older_row", "t._source_order"), ("older_deletion", 't."order"')):
        its = {"now": time_of(sql.SQL("n._source_order")), "was": time_of(sql.SQL(order))}
        cur.execute(sql.SQL(Q[query]).format(**parts, **its), {**values, "most": MOST_DISORDER_MILLIS})
        refuse_younger(maybe(cur), values)


def time_of(order: sql.Composable) -> sql.Composable:
    """Returns the source's time in milliseconds, at the end of an order."""
    return sql.SQL(Q["time_of"]).format(order=order)


def refuse_younger(found: Any, values: Mapping[str, Any]) -> None:
    """Raises `BadData` for a record that was found with another place in its log than its time allows."""
    if found is not None:
        raise BadData(
            f"{values['table']}: the record at {found.place} offset {found.offset} lies before what is there in the "
            f"source's log, and is {found.hours} hours younger: the log has begun again, and places in it cannot be compared",
            next_command=f"lockstep clone {values['pipeline']} --to ANOTHER_NAME",
        )
