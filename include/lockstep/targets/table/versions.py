"""Checks that a history's table holds its versions: their moments, deletions, and one current version of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.columns import VERSION_NAMES, version_misfit
from lockstep.core.pipeline.definition import History
from lockstep.ledger.admin.version_indexes import current_index, lacks_current_index

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline

TIMESTAMPTZ = "timestamp with time zone"


def require_versions(pipeline: Pipeline, columns: Sequence[Column], found: Mapping[str, Any]) -> set[str]:
    """Refuses columns of a history that hold no moments or no deletions. Returns the columns that Lockstep fills."""
    target = pipeline.first
    if not isinstance(target, History):
        return set()
    name, table = pipeline.name, target.table
    if fault := version_misfit(target.order_by, columns):
        raise BadDefinition(f"{name}: {fault}")
    moment = found[target.order_by].type if target.order_by is not None and target.order_by in found else TIMESTAMPTZ
    for column, type_ in zip(VERSION_NAMES, (moment, moment, "boolean"), strict=True):
        if column not in found or found[column].type != type_:
            raise Refusal(
                f"{name}: target {table} needs a column {column} of type {type_}",
                next_command=f"change target.sql, then lockstep migrate {name}",
            )
    if found["valid_until"].not_null:
        raise Refusal(
            f"{name}: {table}.valid_until is not null, and the current version of a key has none",
            next_command=f"alter table {table} alter column valid_until drop not null, the same in target.sql",
        )
    strict = [column.name for column in columns if column.name in found and found[column.name].not_null]
    strict = [column for column in strict if column not in target.key]
    if strict and pipeline.takes_tombstones:
        raise Refusal(
            f"{name}: {table}.{strict[0]} is not null, and the row of a deletion has a key and no other value",
            next_command=f"alter table {table} alter column {strict[0]} drop not null, the same in target.sql",
        )
    return {*VERSION_NAMES}


def require_one_current(cur: cursor, name: str, target: History) -> None:
    """Refuses a table in which a key could have two current versions."""
    if lacks_current_index(cur, target):
        raise Refusal(
            f"{name}: target {target.table} has no unique index on ({', '.join(sorted(target.key))}) where valid_until is "
            "null: two current versions of a key could not be refused",
            next_command=f"{current_index(cur, target)}, the same in target.sql, then lockstep migrate {name}",
        )
