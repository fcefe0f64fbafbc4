"""Targets: what a batch's rows become in the database."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.columns import IDENTIFIER
from lockstep.core.errors import BadDefinition


@dataclass(frozen=True, slots=True)
class Append:
    """Every record becomes its own row, keyed by (_stream, _offset, _ordinal).

    `transform` names the function of transform.py that makes these rows; without it, it is the one called transform.
    """

    table: str
    transform: str | None = None

    def __post_init__(self) -> None:
        _refuse_bad_table(self.table)
        _refuse_bad_transform(self.transform)


@dataclass(frozen=True, slots=True)
class Upsert:
    """The newest record of a key is the key's row; a tombstone deletes it. Newest: (`order_by`, stream epoch, offset)."""

    table: str
    key: tuple[str, ...]
    order_by: str | None = None
    transform: str | None = None

    def __post_init__(self) -> None:
        _refuse_bad_table(self.table)
        _refuse_bad_transform(self.transform)
        if isinstance(self.key, str) or not self.key:
            raise BadDefinition("target.key must be a tuple of column names, such as ('order_id',)")
        for name in (*self.key, *([self.order_by] if self.order_by else [])):
            if not IDENTIFIER.match(name):
                raise BadDefinition(f"target: {name!r} is not a column name")


Target = Append | Upsert


def _refuse_bad_transform(name: str | None) -> None:
    if name is not None and not (isinstance(name, str) and name.isidentifier()):
        raise BadDefinition(f"target.transform {name!r}: it must be the name of a function in transform.py")


def _refuse_bad_table(table: str) -> None:
    schema, dot, name = table.partition(".")
    if not dot or not IDENTIFIER.match(schema) or not IDENTIFIER.match(name):
        raise BadDefinition(f"target.table {table!r}: it must be schema.table, in lower case")
    if schema in {"lockstep", "lockstep_staging"}:
        raise BadDefinition(f"target.table {table!r}: the schema {schema} is the ledger's own")
