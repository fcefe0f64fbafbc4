"""Finds rows with a value that is too long for an index of their table. They are not published yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from psycopg2 import sql

from lockstep.adapters.postgres_errors import StatementRefused, server_refusals
from lockstep.core.pipeline.definition import Accumulate, Upsert
from lockstep.core.pipeline.targets import WithTotals
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import each_name, table_name
from lockstep.ledger.rows import every
from lockstep.targets.payload import Payload, payload
from lockstep.targets.table.fit import types_of_target
from lockstep.targets.table.refused import undone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Target
    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets.table", "long_keys")
SAFE_BYTES = 2_000  # values of a row that together have no more fit into each index. A B-tree's limit is 2,704.
TOMBSTONES, CONTRIBUTIONS = "lockstep.tombstone", "lockstep.contribution"


class LongValue(NamedTuple):
    """A row's longest indexed value, and why the database refuses the row's place in an index."""

    stream_id: int
    offset: int
    name: str
    size: int
    table: str
    why: str


def long_values(cur: cursor, target: Target, rows: Rows) -> list[LongValue]:
    """Returns the rows that an index of the table, or the ledger's memory of keys, cannot hold.

    Tries the candidates in temporary tables with the same indexes, which end with the transaction.
    """
    key = tuple(getattr(target, "key", None) or ())
    columns = _keys_alone(cur, target, key) if isinstance(target, WithTotals) else payload(cur, target.table, rows)
    memory = TOMBSTONES if isinstance(target, Upsert) else CONTRIBUTIONS if isinstance(target, Accumulate) else None
    names = _indexed(cur, target, rows, columns, key if memory else ())
    if not names or not (found := _long_rows(cur, rows, names)):
        return []
    deleted = [row for row in found if row.deleted]
    there = [row for row in found if not row.deleted]
    refused = list(_Trial(cur, target.table, rows, columns).refused(there))
    if memory:
        remembered = deleted if memory == TOMBSTONES else there
        known = {(one.stream_id, one.offset) for one in refused}
        left = [row for row in remembered if (row.stream_id, row.offset) not in known]
        refused += _Trial(cur, memory, rows, columns, key, target.table).refused(left)
    return refused


def _keys_alone(cur: cursor, target: Target, key: Sequence[str]) -> Payload:
    """Returns the columns of a table of totals that come from records: its key."""
    held = types_of_target(cur, target.table)
    return Payload(tuple(key), tuple(held[name] for name in key))


def _indexed(cur: cursor, target: Target, rows: Rows, columns: Payload, key: Sequence[str]) -> list[str]:
    asked = {"staging": rows.table, "table": target.table, "names": list(columns.names)}
    cur.execute(Q["indexed"], asked | {"keys": list(key), "names_keys": bool(key)})
    return [row.name for row in every(cur)]


def _long_rows(cur: cursor, rows: Rows, names: Sequence[str]) -> list[Any]:
    size = "({name}::text, octet_length(t.{column}))"
    sizes = [sql.SQL(size).format(name=sql.Literal(name), column=sql.Identifier(name)) for name in names]
    whole = each_name("coalesce(octet_length(t.{}), 0)", names, " + ")
    statement = sql.SQL(Q["long_rows"]).format(rows=rows.source, sizes=sql.SQL(", ").join(sizes), whole=whole)
    cur.execute(statement, {"safe": SAFE_BYTES})
    return every(cur)


@dataclass(slots=True)
class _Trial:
    """A temporary table with the indexes of a table. With `key`, it is tried with keys of that target alone."""

    cur: cursor
    table: str
    rows: Rows
    columns: Payload
    key: tuple[str, ...] = ()
    target: str = ""

    def refused(self, found: Sequence[Any]) -> Iterator[LongValue]:
        """Yields the rows that an index refuses, found by halving."""
        if found:
            self._make()
            yield from self._halved(found)

    def _halved(self, found: Sequence[Any]) -> Iterator[LongValue]:
        why = self._why_refused(found)
        if why is not None and len(found) == 1:
            (row,) = found
            yield LongValue(row.stream_id, row.offset, row.name, row.size, self.table, why)
        elif why is not None:
            middle = len(found) // 2
            yield from self._halved(found[:middle])
            yield from self._halved(found[middle:])

    def _why_refused(self, found: Sequence[Any]) -> str | None:
        """Returns the database's words for rows that are too long. Another refusal is the commit's to find."""
        places = {"streams": "stream_id", "offsets": "offset", "ordinals": "ordinal"}
        values = {name: [getattr(row, column) for row in found] for name, column in places.items()}
        parts = {"trial": self._trial, "rows": self.rows.source, "staged": self.columns.staged}
        more = {"keys": each_name("t.{}", self.key)} if self.key else {"columns": self.columns.columns}
        statement = sql.SQL(Q["try_keys" if self.key else "try_rows"]).format(**parts, **more)
        with undone(self.cur):
            try:
                with server_refusals():
                    self.cur.execute(statement, values | {"target": self.target})
            except StatementRefused as refused:
                return refused.too_long
        return None

    def _make(self) -> None:
        self.cur.execute(sql.SQL(Q["make_trial"]).format(trial=self._trial, table=table_name(self.table)))
        self.cur.execute(Q["not_null"], {"trial": ".".join(self._trial.strings)})
        if names := [row.name for row in every(self.cur)]:
            each = each_name("alter column {} drop not null", names)
            self.cur.execute(sql.SQL(Q["take_nulls"]).format(trial=self._trial, each=each))
        self.cur.execute(Q["indexes"], {"table": self.table})
        for row in every(self.cur):
            definition = sql.SQL(row.definition)
            self.cur.execute(sql.SQL(Q["make_index"]).format(trial=self._trial, definition=definition))

    @property
    def _trial(self) -> sql.Identifier:
        return sql.Identifier("pg_temp", f"trial_of_{'keys' if self.key else 'rows'}")
