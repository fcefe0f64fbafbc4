"""Casts the decoded columns to the target's types, and refuses any value that such a type would change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.core.pipeline.columns import TEXT
from lockstep.core.records import RESERVED_COLUMNS, UNAVAILABLE
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one
from lockstep.targets.table.fit import READ_FROM_TEXT, holds_exactly, types_of_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets", "payload")


@dataclass(frozen=True, slots=True)
class Payload:
    """The columns to publish: their names, and the target's types that the staged values are cast to.

    `is_marked` says that each row names its unavailable values, in a column that is not published.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    is_marked: bool = False

    @property
    def columns(self) -> Composable:
        """Returns the target's columns: `a, b`."""
        return sql.SQL(", ").join(sql.Identifier(name) for name in self.names)

    @property
    def staged(self) -> Composable:
        """Returns the staged values as the target's types: `t.a::text as a, t.b::numeric(12,2) as b`."""
        return sql.SQL(", ").join(
            sql.SQL("t.{0}::{1} as {0}").format(sql.Identifier(name), sql.SQL(type_))
            for name, type_ in zip(self.names, self.types, strict=True)
        )


def payload(cur: cursor, table: str, rows: Rows) -> Payload:
    """Returns the columns of the rows, reserved ones left out, with the target's types for them.

    Raises `BadData` for a value that its column cannot hold as it is. Casts cut texts and round numbers without an
    error.
    """
    held = types_of_target(cur, table)
    reserved = [name for name, _ in RESERVED_COLUMNS]
    cur.execute(Q["staged_columns"], {"table": rows.table, "reserved": reserved})
    found = [(row.name, row.type) for row in every(cur)]
    staged = tuple((name, type_) for name, type_ in found if name != UNAVAILABLE)
    odd = {name: (type_, held[name]) for name, type_ in staged if not is_kept(type_, held[name])}
    if odd:
        _require_whole(cur, table, rows, odd)
    names, types = tuple(name for name, _ in staged), tuple(held[name] for name, _ in staged)
    return Payload(names, types, is_marked=len(staged) < len(found))


def is_kept(staged: str, held: str) -> bool:
    """Returns True if the target's type holds every value of the staged type, or the cast refuses it."""
    return holds_exactly(held, staged, is_key=False) or (staged == TEXT[0] and held in {*TEXT, *READ_FROM_TEXT})


def _require_whole(cur: cursor, table: str, rows: Rows, odd: Mapping[str, tuple[str, str]]) -> None:
    changes = {name: _change(cur, name, staged, held) for name, (staged, held) in odd.items()}
    named = [sql.SQL("when {} then {}").format(change, sql.Literal(name)) for name, change in changes.items()]
    statement = sql.SQL(Q["first_changed"]).format(
        rows=rows.source, named=sql.SQL(" ").join(named), any_of=sql.SQL(" or ").join(changes.values())
    )
    cur.execute(statement)
    if row := maybe(cur):
        staged, held = odd[row.name]
        raise BadData(
            f"{table}.{row.name} is {held} and cannot hold the {staged} of the record at {row.place} offset {row.offset} "
            "as it is",
            next_command=f"alter table {table} alter column {row.name} type {staged}, the same in target.sql",
        )


def _change(cur: cursor, name: str, staged: str, held: str) -> Composable:
    """Returns the condition of a value that the target's type would change.

    If values cannot be cast back from that type, it holds for every value that is not null.
    """
    cur.execute(Q["way_back"], {"staged": staged, "held": held})
    over = held if staged == TEXT[0] else one(cur).over
    parts = {
        "column": sql.Identifier(name),
        "held": sql.SQL(held),
        "staged": sql.SQL(staged),
        "over": sql.SQL(over or ""),
    }
    return sql.SQL(Q["changes" if over else "loses"]).format(**parts)
