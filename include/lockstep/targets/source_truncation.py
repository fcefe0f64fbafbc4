"""Applies truncations of the source: whatever lies before one in the source's log is gone, and stays so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import each_name
from lockstep.ledger.rows import maybe
from lockstep.targets.source_order import MOST_DISORDER_MILLIS, place_tombstones, refuse_younger, time_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from psycopg2.extensions import cursor

    from lockstep.targets.unavailable import OpenValues

Q = queries("lockstep.targets", "source_truncation")


def is_truncation(key: Sequence[str]) -> sql.Composable:
    """Returns the condition of a staged record `t` that says that the source's table was truncated."""
    return sql.SQL(Q["is_truncation"]).format(no_staged_key=each_name("t.{} is null", key, " and "))


class Truncations:
    """The truncations of the source that a publish stages, and those from before it.

    `parts` and `values` are those of the publish's own statements. The staged rows of `parts` lose the truncations.
    """

    def __init__(self, cur: cursor, key: Sequence[str], parts: dict[str, Any], values: dict[str, Any]) -> None:
        self._cur: Final = cur
        self._parts = parts
        self._values = values
        its = {"is_truncation": is_truncation(key), "time": time_of(sql.SQL('k."order"'))}
        self._youngest: Any = self._found("keep_truncations", **its)
        self.count: int = self._youngest.number if self._youngest else 0
        if self.count:
            parts["rows"] = self._made("without_truncations", **its)
            values["stream"] = self._youngest.stream_id
        parts["rows_of_keys"] = parts["rows"]  # also of those from before a truncation

    def apply(self, left_open: OpenValues) -> tuple[int, int]:
        """Drops staged records from before the last truncation, and deletes rows from before it. Returns both numbers.

        The target is locked. Records from before it give no values either. Tombstones get their order, and those that
        have done their work before count as dropped. Raises `BadData` if the source's log has begun again.
        """
        found = self._found("floor")
        dropped, emptied = self._apply_floor(found.order) if found else (0, 0)
        left_open.fill_from_batch()
        return dropped + place_tombstones(self._cur, self._parts, self._values), emptied

    def _apply_floor(self, order: memoryview) -> tuple[int, int]:
        self._values["floor"] = order
        floor = sql.Literal(bytes(order))
        now, was = time_of(sql.SQL("n._source_order")), time_of(sql.SQL("{}::bytea").format(floor))
        refuse_younger(self._found("older_than_floor", now=now, was=was), self._values)
        dropped = self._run("drop_older")
        self._parts["rows"] = self._made("from_above", floor=floor)
        return dropped, self._emptied() if self.count else 0

    def _emptied(self) -> int:
        """Deletes the rows from before the last truncation. Returns their number."""
        its, now = self._youngest, time_of(sql.SQL("%(order)s::bytea"))
        self._values |= {"stream_id": its.stream_id, "offset": its.offset, "order": its.order}
        was = time_of(sql.SQL("t._source_order"))
        refuse_younger(self._found("older_than_rows", now=now, was=was), self._values)
        return self._run("delete_older")

    def _made(self, query: str, **more: Any) -> sql.Composed:
        return sql.SQL(Q[query]).format(**self._parts, **more)

    def _run(self, query: str, **more: Any) -> int:
        self._cur.execute(self._made(query, **more), {**self._values, "most": MOST_DISORDER_MILLIS})
        return self._cur.rowcount

    def _found(self, query: str, **more: Any) -> Any:
        self._run(query, **more)
        return maybe(self._cur)
