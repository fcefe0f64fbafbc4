"""Compares a target's rows with those of the same target in another database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.pipeline.columns import VERSION_NAMES
from lockstep.core.pipeline.targets import History, WithTotals, row_key
from lockstep.core.records import COORDINATES
from lockstep.ledger.exact_rows import with_texts
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name, typed_columns
from lockstep.targets.proof.difference import compare_rows, places_of
from lockstep.targets.table.fit import types_of_target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Target

Q = queries("lockstep.targets.proof", "side_by_side")


@dataclass(frozen=True, slots=True)
class Carried:
    """The rows of one target on their way to another database. `types` has its columns, in order."""

    types: dict[str, str]
    rows: IO[bytes]


def compared_columns(target: Target, columns: Iterable[str]) -> list[str]:
    """Returns the columns to compare: those that a batch writes. Others have defaults, such as the time."""
    totals = [total.name for total in target.totals] if isinstance(target, WithTotals) else []
    written = (
        [*row_key(target), *totals] if totals else [*columns, *(VERSION_NAMES if isinstance(target, History) else ())]
    )
    return list(dict.fromkeys([*written, *COORDINATES]))


def carry(cur: cursor, target: Target, columns: Iterable[str], rows: IO[bytes]) -> Carried:
    """Copies the target's rows into the file, in those of the columns that the table has."""
    held = types_of_target(cur, target.table)
    types = {name: held[name] for name in columns if name in held}
    cur.copy_expert(sql.SQL(Q["rows_out"]).format(columns=_list(types), target=table_name(target.table)), rows)
    rows.seek(0)
    return Carried(types, rows)


def side_by_side(
    cur: cursor, target: Target, carried: Carried, columns: Iterable[str], samples: int, place: int = 0
) -> dict[str, Any]:
    """Returns the difference from the carried rows to those that stand here, as `difference` does."""
    parts = places_of(target, place)
    cur.execute(sql.SQL(Q["make_before"]).format(**parts, typed=typed_columns(carried.types.items())))
    cur.copy_expert(sql.SQL(Q["rows_in"]).format(**parts), carried.rows)
    held = types_of_target(cur, target.table)
    here = [name for name in columns if name in held]
    rows = sql.SQL(Q["rows_here"]).format(**parts, columns=_list(here))
    rows_after = with_texts(cur, parts["target"], sql.SQL("({})").format(rows), only=here)
    return compare_rows(cur, parts | {"rows_after": rows_after}, {}, samples)


def _list(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
