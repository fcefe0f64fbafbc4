"""Checks, before the read, that a target fits the rows that will be published into it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lockstep.core.capture.debezium import without_mark
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.definition import Append, History, PerPartition, Windows
from lockstep.core.pipeline.guarantees import Delivered, commit_unit
from lockstep.core.pipeline.targets import Keyed, WithTotals, message_key, row_key
from lockstep.core.pipeline.totals import Count, Sum, misfits
from lockstep.core.records import COORDINATES, TARGET_COLUMNS, TARGET_COORDINATES
from lockstep.core.states import CommitUnit
from lockstep.core.windows.event_time import event_time_fault
from lockstep.ledger.admin.shown_view import behind_view
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import in_database
from lockstep.ledger.rows import every, one
from lockstep.targets.by_batch import is_by_batch
from lockstep.targets.table.versions import TIMESTAMPTZ, require_one_current, require_versions
from lockstep.targets.table.zones import require_zone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline, Target

Q = queries("lockstep.targets.table", "fit")
READ_FROM_TEXT = frozenset({"uuid", "json", "jsonb"})
# Types that hold every value of a type as it is, beside the type itself.
WIDER = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "text": ("character varying",),
    "real": ("double precision",),
}
_NUMERIC = re.compile(r"^numeric\((\d+),(\d+)\)$")


def require_fit(cur: cursor, pipeline: Pipeline, columns: Sequence[Column]) -> None:
    """Refuses a target that is missing, lacks a column, holds another type, or does not keep its key unique."""
    held = behind_view(cur, pipeline)
    require_columns(cur, held, columns)
    require_key(cur, held)
    tasks = ("lockstep_partition",) if commit_unit(pipeline.guarantee) == CommitUnit.STREAM else ()
    for role in ("lockstep_committer", *tasks):
        cur.execute(Q["may_publish"], {"table": pipeline.first.table, "role": role})
        if not one(cur).granted:
            raise Refusal(
                f"{pipeline.name}: {role} may not write to {pipeline.first.table}",
                next_command=f"lockstep migrate {pipeline.name}",
            )


def require_columns(cur: cursor, pipeline: Pipeline, columns: Sequence[Column]) -> None:
    """Refuses a table that is missing, lacks a column, or holds another type."""
    columns = without_mark(columns)
    table, name = pipeline.first.table, pipeline.name
    found = {row.name: row for row in target_columns(cur, table)}
    migrate = f"lockstep migrate {name}"
    propose = f"{migrate} --propose" if pipeline.store is None else migrate
    if not found:
        raise Refusal(f"{name}: target {table} is not there", next_command=migrate)
    for coordinate, type_ in TARGET_COLUMNS:
        if coordinate not in found or found[coordinate].type != type_:
            raise Refusal(f"{name}: target {table} needs a column {coordinate} of type {type_}", next_command=migrate)
    if isinstance(pipeline.first, WithTotals):
        given = _require_totals(pipeline, pipeline.first, columns, found) | {*TARGET_COORDINATES}
        columns = ()
    else:
        given = {column.name for column in columns} | {*TARGET_COORDINATES}
    require_zone(cur, pipeline)
    given |= require_versions(pipeline, columns, found)
    for column in columns:
        if column.name not in found:
            raise Refusal(
                f"{name}: target {table} has no column {column.name}; the definition decodes one", next_command=propose
            )
        if not can_hold(cur, column, found[column.name]):
            raise Refusal(
                f"{name}: target {table}.{column.name} is {found[column.name].type} and cannot hold {column.type}",
                next_command=propose if pipeline.store is None else f"change target.sql or the schema, then {migrate}",
            )
    for row in found.values():
        if row.must_be_given and row.name not in given:
            raise Refusal(
                f"{name}: target {table}.{row.name} is not null, and the definition does not decode it",
                next_command=propose,
            )


def require_key(cur: cursor, pipeline: Pipeline) -> None:
    """Refuses a table that does not keep the target's key unique."""
    target, name = pipeline.first, pipeline.name
    table = target.table
    key = {*COORDINATES} if isinstance(target, Append) else set(row_key(target))
    if isinstance(target, Append) and not isinstance(pipeline.guarantee, Delivered) and is_by_batch(cur, table):
        key.add("_batch")  # Postgres keeps it unique within a partition, and the ledger gives no offset to two batches
        if isinstance(pipeline.guarantee, PerPartition):
            raise Refusal(
                f"{name}: target {table} is partitioned by _batch, and only PerBatch commits a batch as a whole",
                next_command=f"partition {table} otherwise, or take PerBatch",
            )
    cur.execute(Q["unique_keys"], {"table": table})
    if not any(set(row.columns) == key for row in every(cur)):
        raise Refusal(
            f"{name}: target {table} has no unique index on ({', '.join(sorted(key))}): a duplicate could not be refused",
            next_command=f"add one to target.sql, then lockstep migrate {name}",
        )
    if isinstance(target, Keyed):
        _refuse_nullable_key(cur, name, target)
    if isinstance(target, Keyed | WithTotals):
        _refuse_loose_key(cur, name, target)
    if isinstance(target, History):
        require_one_current(cur, name, target)
    missing = sorted(set(message_key(target)) - {row.name for row in target_columns(cur, table)})
    if missing:
        raise Refusal(
            f"{name}: target.key: {table} has no column {missing[0]}, which the sent records' key is made of",
            next_command=f"change the definition, then lockstep migrate {name}",
        )


def refuse_key(cur: cursor, pipeline: Pipeline) -> None:
    """Refuses a table with a unique index.

    After a crash it would refuse the rows that are appended again, for ever.
    """
    cur.execute(Q["unique_keys"], {"table": pipeline.first.table})
    for row in every(cur):
        raise Refusal(
            f"{pipeline.name}: target {pipeline.first.table} is unique on ({', '.join(row.columns)}), and at least once "
            "appends a row again after a crash",
            next_command="take the index out of target.sql and out of the table, or name another guarantee in another pipeline",
        )


def _refuse_nullable_key(cur: cursor, name: str, target: Keyed) -> None:
    """Refuses key columns that may be null.

    A unique index treats nulls as different, but a batch treats them as one key.
    """
    nullable = [row.name for row in target_columns(cur, target.table) if row.name in target.key and not row.not_null]
    if nullable:
        changes = ", ".join(f"alter column {column} set not null" for column in nullable)
        raise Refusal(
            f"{name}: key column {', '.join(nullable)} of target {target.table} may be null, and of several records "
            "without a key one batch would keep one",
            next_command=f"alter table {target.table} {changes}, the same in target.sql, then lockstep migrate {name}",
        )


def _refuse_loose_key(cur: cursor, name: str, target: Target) -> None:
    """Refuses key columns for which different texts are equal.

    A table treats them as one key, but the ledger and a sent record's key treat them as several.
    """
    cur.execute(Q["loose_keys"], {"table": target.table, "key": [*row_key(target)]})
    for row in every(cur):
        column = f'alter table {target.table} alter column {row.name} type text collate "default"'
        index = f"drop index {row.index}, create it without a collation"
        raise Refusal(
            f"{name}: key column {row.name} of target {target.table} takes different texts as one, by its type or collation, "
            "or by that of an index, and a key is its very text",
            next_command=f"{index if row.index else column}, the same in target.sql, then lockstep migrate {name}",
        )


def _require_totals(
    pipeline: Pipeline, target: WithTotals, columns: Sequence[Column], found: Mapping[str, Any]
) -> set[str]:
    """Refuses a total that cannot be exact, and a column that does not hold it to the digit.

    Returns the columns that it fills.
    """
    name = pipeline.name
    if isinstance(target, Windows) and (fault := event_time_fault(pipeline.event_time, columns)):
        raise BadDefinition(f"{name}: {fault}")
    for fault in misfits(target.key, target.totals, {column.name: column.type for column in columns}):
        raise BadDefinition(f"{name}: {fault}")
    types = {column.name: column.postgres_type for column in columns}
    wanted = {key: types[key] for key in target.key}
    if isinstance(target, Windows):
        wanted |= {"window_start": "timestamptz", "window_end": "timestamptz", "_revision": "integer"}
    for total in target.totals:
        if total.of is None or isinstance(total, Count):
            wanted[total.name] = "bigint"
        else:
            # a sum outgrows its terms' type
            wanted[total.name] = "numeric" if isinstance(total, Sum) else types[total.of]
    for column, type_ in wanted.items():
        migrate = f"lockstep migrate {name}"
        if column not in found:
            raise Refusal(
                f"{name}: target {target.table} has no column {column}; it takes {type_}", next_command=migrate
            )
        if not holds_exactly(found[column].type, type_, is_key=column in target.key):
            raise Refusal(
                f"{name}: target {target.table}.{column} is {found[column].type}; only {type_} holds it exactly",
                next_command=f"change target.sql, then {migrate}",
            )
    return set(wanted)


def holds_exactly(held: str, wanted: str, *, is_key: bool) -> bool:
    """Returns True if a column of one type holds every value of the other as it is."""
    if held in {written_alike(wanted), *WIDER.get(wanted, ())} or (is_key and (wanted, held) == ("text", "uuid")):
        return True
    needed, room = _NUMERIC.match(wanted), _NUMERIC.match(held)
    if needed is None:
        return False
    digits, scale = int(needed[1]), int(needed[2])
    if room is None:
        return held == "numeric"
    return int(room[2]) >= scale and int(room[1]) - int(room[2]) >= digits - scale


def types_of_target(cur: cursor, table: str) -> dict[str, str]:
    """Returns the target's columns, with their types as Postgres writes them."""
    return {row.name: row.type for row in target_columns(cur, table)}


def written_alike(type_: str) -> str:
    """Returns a decoded column's type as Postgres writes that of the target's."""
    return TIMESTAMPTZ if type_ == "timestamptz" else type_


def target_columns(cur: cursor, table: str) -> list[Any]:
    """Returns the table's columns, in order, or none if there is no such table."""
    cur.execute(Q["target_columns"], {"table": in_database(table)})
    return every(cur)


def can_hold(cur: cursor, column: Column, row: Any) -> bool:
    """Returns True if a value of the decoded column may be assigned to a column of the target."""
    if column.type == "string" and row.type in READ_FROM_TEXT:
        return True
    cur.execute(Q["can_hold"], {"staged": column.postgres_type.partition("(")[0], "held": row.type_id})
    return bool(one(cur)[0])
