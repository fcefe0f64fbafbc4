"""Fills in values that change records leave open, from older records of the batch or from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.core.records import UNAVAILABLE
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.targets.payload import Payload

Q = queries("lockstep.targets", "unavailable")


class OpenValues:
    """The values that the newest records of a publish leave open, by column. Without marks there are none.

    `parts` and `values` are those of the publish's own statements. Raises `BadData` for a mark that names no column: a
    null would stand in the place of a value.
    """

    def __init__(self, cur: cursor, columns: Payload, parts: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._cur = cur
        self._parts = parts
        self._values = values
        self._types = dict(zip(columns.names, columns.types, strict=True))
        self._is_marked = columns.is_marked
        self._lost = 0
        self._open: list[str] = []
        if self._is_marked:
            cur.execute(Q["open_columns"])
            self._open = [row.name for row in every(cur)]
            for name in self._open:
                if name not in self._types:
                    self._refuse(name)

    def fill_from_batch(self) -> None:
        """Takes each open value from the newest older record of its key, but never from before a deletion."""
        for name in self._open:
            self._run("fill_from_batch", name)
            self._lost += one(self._cur).lost

    def fill_from_rows(self) -> dict[str, int]:
        """Takes each value that is still open from the row that is there. Returns how many stay open, by name."""
        if not self._is_marked:
            return {}
        self._cur.execute(Q["has_withdrawn"])
        withdrawn = one(self._cur).yes
        for name in self._open:
            self._run("fill_from_target", name)
            if withdrawn:
                self._run("fill_from_withdrawn", name)
        self._cur.execute(Q["left_open"])
        return {"unavailable": self._lost + one(self._cur).lost}

    def forget_rows(self) -> None:
        """Forgets the rows that a replay has taken out: the next target has rows of its own."""
        if self._is_marked:
            self._cur.execute(Q["forget_withdrawn"])

    def _refuse(self, name: str) -> NoReturn:
        self._cur.execute(Q["first_marked"], {"column": name})
        row, table = one(self._cur), self._values["table"]
        raise BadData(
            f"{table}: the record at {row.place} offset {row.offset} leaves {name} open, and that is no column here: "
            f"a transform that renames or drops a column does the same in {UNAVAILABLE} (docs/formats.md)"
        )

    def _run(self, query: str, name: str) -> None:
        named = {"column": sql.Identifier(name), "type": sql.SQL(self._types[name])}
        self._cur.execute(sql.SQL(Q[query]).format(**self._parts, **named), {**self._values, "column": name})
