"""Whether a target fits what will be published into it: asked before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.definition import Upsert
from lockstep.core.errors import Refusal
from lockstep.core.guarantees import EACH_STREAM, commit_unit
from lockstep.core.staging import RESERVED_COLUMNS
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.columns import Column
    from lockstep.core.definition import Pipeline

Q = queries("lockstep.targets", "fit")
COORDINATES = {"_stream": "integer", "_offset": "bigint", "_ordinal": "integer", "_batch": "bigint"}
READ_FROM_TEXT = frozenset({"uuid", "json", "jsonb"})


@dataclass(frozen=True, slots=True)
class Payload:
    """The columns to publish: their names quoted, and the expressions that cast the staged value to the target's type."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def columns(self) -> sql.Composable:
        """`a, b`: the target's columns."""
        return sql.SQL(", ").join(sql.Identifier(name) for name in self.names)

    @property
    def staged(self) -> sql.Composable:
        """`t.a::text as a, t.b::numeric(12,2) as b`: the staged values as the target's types."""
        return sql.SQL(", ").join(
            sql.SQL("t.{0}::{1} as {0}").format(sql.Identifier(name), sql.SQL(type_))
            for name, type_ in zip(self.names, self.types, strict=True)
        )


def payload(cur: cursor, table: str, staged: str) -> Payload:
    """The columns of the table `staged`, reserved ones left out, with the target's types for them."""
    types = {row.name: row.type for row in _columns(cur, table)}
    reserved = [name for name, _ in RESERVED_COLUMNS]
    cur.execute(Q["staged_columns"], {"table": staged, "reserved": reserved})
    names = tuple(row.name for row in every(cur))
    return Payload(names, tuple(types[name] for name in names))


def require_fit(cur: cursor, pipeline: Pipeline, columns: Sequence[Column]) -> None:
    """Refuses a target that is missing, lacks a column, holds another type, or does not keep its key unique."""
    table, name = pipeline.target.table, pipeline.name
    found = {row.name: row for row in _columns(cur, table)}
    migrate = f"lockstep migrate {name}"
    if not found:
        raise Refusal(f"{name}: target {table} is not there", next_command=migrate)
    for coordinate, type_ in COORDINATES.items():
        if coordinate not in found or found[coordinate].type != type_:
            raise Refusal(f"{name}: target {table} needs a column {coordinate} of type {type_}", next_command=migrate)
    given = {column.name for column in columns} | COORDINATES.keys()
    for column in columns:
        if column.name not in found:
            raise Refusal(
                f"{name}: target {table} has no column {column.name}; the definition decodes one", next_command=migrate
            )
        if not _can_hold(cur, column, found[column.name]):
            raise Refusal(
                f"{name}: target {table}.{column.name} is {found[column.name].type} and cannot hold {column.type}",
                next_command=f"change target.sql or the schema, then {migrate}",
            )
    for row in found.values():
        if row.must_be_given and row.name not in given:
            raise Refusal(f"{name}: target {table}.{row.name} is not null, and the definition does not decode it")
    _require_key_and_grants(cur, pipeline)


def _require_key_and_grants(cur: cursor, pipeline: Pipeline) -> None:
    table, name = pipeline.target.table, pipeline.name
    key = set(pipeline.target.key) if isinstance(pipeline.target, Upsert) else {"_stream", "_offset", "_ordinal"}
    cur.execute(Q["unique_keys"], {"table": table})
    if not any(set(row.columns) == key for row in every(cur)):
        raise Refusal(
            f"{name}: target {table} has no unique index on ({', '.join(sorted(key))}): a duplicate could not be refused",
            next_command=f"add one to target.sql, then lockstep migrate {name}",
        )
    tasks = ("lockstep_partition",) if commit_unit(pipeline.guarantee) == EACH_STREAM else ()
    for role in ("lockstep_committer", *tasks):
        cur.execute(Q["may_publish"], {"table": table, "role": role})
        if not one(cur).granted:
            raise Refusal(f"{name}: {role} may not write to {table}", next_command=f"lockstep migrate {name}")


def _columns(cur: cursor, table: str) -> list[Any]:
    cur.execute(Q["target_columns"], {"table": table})
    return every(cur)


def _can_hold(cur: cursor, column: Column, row: Any) -> bool:
    if column.type == "string" and row.type in READ_FROM_TEXT:
        return True
    cur.execute(Q["can_hold"], {"staged": column.postgres_type.partition("(")[0], "held": row.type_id})
    return bool(one(cur)[0])
