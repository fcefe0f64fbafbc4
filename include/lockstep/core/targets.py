"""Defines the targets: what a batch's rows become in the database."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.columns import IDENTIFIER, RESERVED
from lockstep.core.errors import BadDefinition
from lockstep.core.totals import Count, Max, Min, Sum, Total

__all__ = ["Accumulate", "Append", "Count", "Max", "Min", "Sum", "Target", "Total", "Upsert"]


@dataclass(frozen=True, slots=True)
class Append:
    """A target in which every record becomes its own row, keyed by (_stream, _offset, _ordinal).

    `transform` names the function of transform.py that makes these rows. Without it, it is the one called transform.
    """

    table: str
    transform: str | None = None

    def __post_init__(self) -> None:
        _refuse_bad_table(self.table)
        _refuse_bad_transform(self.transform)


@dataclass(frozen=True, slots=True)
class Upsert:
    """A target in which the newest record of a key is the key's row. A tombstone deletes the row.

    The newest record has the highest (`order_by`, stream epoch, offset). `shared_with` names the other pipelines that
    write this table. Each of them names this one in its own definition.
    """

    table: str
    key: tuple[str, ...]
    order_by: str | None = None
    transform: str | None = None
    shared_with: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _refuse_bad_table(self.table)
        _refuse_bad_transform(self.transform)
        _refuse_bad_key(self.key, *([self.order_by] if self.order_by else []))
        _refuse_bad_names(self.shared_with)


@dataclass(frozen=True, slots=True)
class Accumulate:
    """A target in which a key's row holds totals over its records.

    What each segment added is kept, so that a replay takes it out again.
    """

    table: str
    key: tuple[str, ...]
    totals: tuple[Total, ...]
    transform: str | None = None

    def __post_init__(self) -> None:
        _refuse_bad_table(self.table)
        _refuse_bad_transform(self.transform)
        _refuse_bad_key(self.key)
        if not isinstance(self.totals, tuple) or not self.totals:
            raise BadDefinition("target.totals must be a tuple of totals, such as (Count('orders'),)")
        for total in self.totals:
            if not isinstance(total, Total):
                raise BadDefinition(f"target.totals: {total!r} is no Count, Sum, Min or Max")
        names = [*self.key, *(total.name for total in self.totals)]
        for name in names:
            if name in RESERVED:
                raise BadDefinition(f"target.totals: the column {name!r} is reserved: Lockstep fills it")
            if names.count(name) > 1:
                raise BadDefinition(f"target.totals: the column {name!r} is there twice")


Target = Append | Upsert | Accumulate


def needed_columns(targets: tuple[Target, ...]) -> tuple[str, ...]:
    """Returns the columns that every row of these targets needs: keys, and the order of a key's records."""
    wanted: list[str] = []
    for target in targets:
        if not isinstance(target, Append):
            wanted += target.key
        if isinstance(target, Upsert) and target.order_by:
            wanted.append(target.order_by)
    return tuple(dict.fromkeys(wanted))


def _refuse_bad_key(key: tuple[str, ...], *others: str) -> None:
    if isinstance(key, str) or not key:
        raise BadDefinition("target.key must be a tuple of column names, such as ('order_id',)")
    for name in (*key, *others):
        if not IDENTIFIER.match(name):
            raise BadDefinition(f"target: {name!r} is not a column name")


def _refuse_bad_names(names: tuple[str, ...]) -> None:
    if not isinstance(names, tuple):
        raise BadDefinition("target.shared_with must be a tuple of pipeline names, such as ('orders_eu',)")
    for name in names:
        if not isinstance(name, str) or not IDENTIFIER.match(name):
            raise BadDefinition(f"target.shared_with: {name!r} is not the name of a pipeline")
        if names.count(name) > 1:
            raise BadDefinition(f"target.shared_with: {name!r} is there twice")


def shares(target: Target) -> tuple[str, ...]:
    """Returns the other pipelines that the definition lets write the table."""
    return target.shared_with if isinstance(target, Upsert) else ()


def _refuse_bad_transform(name: str | None) -> None:
    if name is not None and not (isinstance(name, str) and name.isidentifier()):
        raise BadDefinition(f"target.transform {name!r}: it must be the name of a function in transform.py")


def _refuse_bad_table(table: str) -> None:
    schema, dot, name = table.partition(".")
    if not dot or not IDENTIFIER.match(schema) or not IDENTIFIER.match(name):
        raise BadDefinition(f"target.table {table!r}: it must be schema.table, in lower case")
    if schema in {"lockstep", "lockstep_staging"}:
        raise BadDefinition(f"target.table {table!r}: the schema {schema} is the ledger's own")
