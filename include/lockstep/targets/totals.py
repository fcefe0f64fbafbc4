"""Writes a target's key and totals in SQL: as staged, as kept, as a row. The key of a window begins with its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.pipeline.targets import Count, Max, Min, Sum, row_key
from lockstep.ledger.quoting import table_name
from lockstep.targets.table.fit import types_of_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.pipeline.targets import Total, WithTotals

# A total over staged rows, several totals combined, and a row's total with another one added.
STAGED = {Count: "count({of})", Sum: "sum({of})", Min: "min({of})", Max: "max({of})"}
COMBINED = {Count: "sum({kept})", Sum: "sum({kept})", Min: "min({kept})", Max: "max({kept})"}
ADDED_PIECES = {
    Count: "t.{name} + excluded.{name}",
    Sum: "coalesce(t.{name} + excluded.{name}, t.{name}, excluded.{name})",  # null: nothing was added to it
    Min: "least(t.{name}{ordered}, excluded.{name})",
    Max: "greatest(t.{name}{ordered}, excluded.{name})",
}


@dataclass(frozen=True, slots=True)
class Written:
    """The pieces of SQL for a target.

    `t` is a staged or a target's row. `c` is a contribution. `l` and `k` are sums of contributions.
    """

    target: WithTotals
    types: Mapping[str, str]

    def parts(self) -> dict[str, Composable]:
        """Returns every piece by the name that the queries give it."""
        keys, totals = row_key(self.target), self.target.totals
        names = [total.name for total in totals]
        return {
            "target": table_name(self.target.table),
            "keys": _list("{name}", keys),
            "names": _list("{name}", names),
            "target_keys": _list("t.{name}", keys),
            "staged_keys": self._keys("t.{name}::{type}", ", "),
            "null_keys": _list("case when t.{name} is null then {text} end", keys),
            "staged_totals": sql.SQL(", ").join(map(_staged, totals)),
            "kept_keys": self._keys("(c.key ->> {place})::{type} as {name}", ", "),
            "combined": sql.SQL(", ").join(map(self._combined, totals)),
            "combined_totals": sql.SQL(", ").join(
                sql.SQL("{}, {}").format(sql.Literal(total.name), self._whole(total)) for total in totals
            ),
            "additions": sql.SQL(", ").join(map(self._added, totals)),
            "newest": sql.SQL(
                '(max(array[c.stream_id, c."offset", c.ordinal]))[1]::int as _stream, '
                '(max(array[c.stream_id, c."offset", c.ordinal]))[2] as _offset, '
                '(max(array[c.stream_id, c."offset", c.ordinal]))[3]::int as _ordinal'
            ),
            "there": sql.SQL("array[t._stream, t._offset, t._ordinal]"),
            "coming": sql.SQL("array[excluded._stream, excluded._offset, excluded._ordinal]"),
            "names_of_left": _list("l.{name}", names),
            "names_of_row": _list("t.{name}", names),
            "names_of_kept": _list("k.{name}", names),
            "shown_of_row": _list("coalesce(t.{name}::text, 'null')", names),
            "shown_of_left": _list("coalesce(l.{name}::text, 'null')", names),
            "shown_of_kept": _list("coalesce(k.{name}::text, 'null')", names),
            "same_as_kept": self._keys("t.{name} = k.{name}", " and "),
            "same_as_left": self._keys("t.{name} = l.{name}", " and "),
        }

    def _keys(self, template: str, joined_by: str) -> Composable:
        return sql.SQL(joined_by).join(
            sql.SQL(template).format(
                name=sql.Identifier(name), type=sql.SQL(self.types[name]), place=sql.Literal(place)
            )
            for place, name in enumerate(row_key(self.target))
        )

    def _combined(self, total: Total) -> Composable:
        return sql.SQL("{} as {}").format(self._whole(total), sql.Identifier(total.name))

    def _whole(self, total: Total) -> Composable:
        adds = isinstance(total, Count | Sum)
        kept = sql.SQL("(c.totals ->> {name})::{type}").format(
            name=sql.Literal(total.name), type=sql.SQL("numeric" if adds else self.types[total.name])
        )
        whole = sql.SQL(COMBINED[type(total)]).format(kept=kept)
        return sql.SQL("({})::{}").format(whole, sql.SQL(self.types[total.name]))

    def _added(self, total: Total) -> Composable:
        name = sql.Identifier(total.name)
        text = self.types[total.name] in {"text", "character varying"}
        ordered = sql.SQL(' collate "default"' if text else "")  # as min and max over contributions order
        added = sql.SQL(ADDED_PIECES[type(total)]).format(name=name, ordered=ordered)
        return sql.SQL("{} = {}").format(name, added)


def written_pieces(cur: cursor, target: WithTotals) -> dict[str, Composable]:
    """Returns the pieces for the target as it stands in the database."""
    return Written(target, types_of_target(cur, target.table)).parts()


def _staged(total: Total) -> Composable:
    of = sql.SQL("*") if total.of is None else sql.SQL("t.{}").format(sql.Identifier(total.of))
    return sql.SQL("{}, {}").format(sql.Literal(total.name), sql.SQL(STAGED[type(total)]).format(of=of))


def _list(template: str, names: Iterable[str]) -> Composable:
    return sql.SQL(", ").join(
        sql.SQL(template).format(name=sql.Identifier(name), text=sql.Literal(name)) for name in names
    )
