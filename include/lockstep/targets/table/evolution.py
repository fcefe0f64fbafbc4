"""Compares a definition with its tables, and runs the safe changes as the targets' owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2 import errors, sql

from lockstep.adapters.connection.roles import become
from lockstep.adapters.postgres import OWNER, PLANNER, TARGETS_ROLE
from lockstep.adapters.postgres_words import first_line
from lockstep.core.changes.evolution import INDEX, INDEXED, Change, Proposal, Unsafe, rewrites, wider
from lockstep.core.errors import Refusal
from lockstep.core.lake.iceberg import Iceberg, database_places
from lockstep.core.pipeline.columns import VERSION_NAMES
from lockstep.core.pipeline.definition import Append, History
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.core.pipeline.targets import Keyed, WithTotals
from lockstep.core.records import TARGET_COLUMNS, TARGET_COORDINATES
from lockstep.ledger.admin.author import foreign_code
from lockstep.ledger.admin.origin_index import lacks_origin_index, origin_index
from lockstep.ledger.admin.shown_view import behind_view, draw_view
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import maybe
from lockstep.targets.payload import is_kept
from lockstep.targets.table import fit
from lockstep.targets.table.versions import require_versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline

Q = queries("lockstep.targets.table", "evolution")


def find_differences(cur: cursor, pipeline: Pipeline, columns: Sequence[Sequence[Column]]) -> Proposal:
    """Returns every difference between the definition and its tables.

    `columns` are those that reach each target. Raises `Refusal` if a table is missing, or lies in another store.
    """
    if pipeline.store is not None:
        raise Refusal(
            f"{pipeline.name}: its results lie in another store, and only tables beside the ledger are compared",
            next_command=f"change target.sql, then lockstep migrate {pipeline.name}",
        )
    found: list[Change | Unsafe] = []
    held: dict[str, list[list[str]]] = {}
    each = [behind_view(cur, one) for one in pipeline.each()]
    for one, its in zip(each, columns, strict=True):
        table = one.first.table
        if isinstance(table, Iceberg):
            continue  # its own tools change it, and a batch is refused that does not fit
        rows = {row.name: row for row in fit.target_columns(cur, table)}
        if not rows:
            raise Refusal(
                f"{pipeline.name}: target {table} is not there", next_command=f"lockstep migrate {pipeline.name}"
            )
        held[table] = [[row.name, row.type] for row in rows.values()]
        found += _of_totals(cur, one, its) if isinstance(one.first, WithTotals) else _of_rows(cur, one, its, rows)
        found += missing_indexes(cur, one)
    return Proposal(
        pipeline.name,
        tuple(each for each in found if isinstance(each, Change)),
        tuple(each for each in found if isinstance(each, Unsafe)),
        held,
        {
            one.first.table: [[column.name, column.type] for column in its]
            for one, its in zip(each, columns, strict=True)
        },
    )


def missing_indexes(cur: cursor, pipeline: Pipeline) -> list[Change]:
    """Returns the index that each keyed table lacks, by which its rows are found by their record."""
    return [
        Change(target.table, INDEXED, None, INDEX, origin_index(cur, target.table), blocks=False, rewrites=False)
        for target in database_places(pipeline.targets).values()
        if not isinstance(target, Append) and lacks_origin_index(cur, target.table)
    ]


def alter(cur: cursor, name: str, changes: Sequence[Change]) -> None:
    """Runs the changes as the targets' owner.

    Raises `Refusal` if the owner may not, or if an author's code would run.
    """
    _become(cur, TARGETS_ROLE)
    again = f"lockstep migrate {name} --propose"
    try:
        for change in changes:
            code = foreign_code(cur, [change.table])
            if code:
                raise Refusal(f"{name}: {code}, and the change would run it", next_command=code.remedy)
            cur.execute(change.statement)
    except errors.InsufficientPrivilege as error:
        raise _not_ours(name, change.table, error) from None
    except psycopg2.OperationalError:
        raise  # a lock, a full disk, or the connection
    except psycopg2.Error as error:
        raise Refusal(
            f"{name}: {change.table}.{change.column}: {first_line(error)}; nothing was changed",
            next_command=f"take away what hangs on the column, then {again}",
        ) from None
    _become(cur, PLANNER)


def draw_again(cur: cursor, pipeline: Pipeline) -> None:
    """Brings the view before an altered table up to date, and returns to the planner's role."""
    _become(cur, OWNER)
    draw_view(cur, pipeline)
    _become(cur, PLANNER)


def lock_tables(cur: cursor, name: str, changes: Sequence[Change]) -> None:
    """Locks the tables of these changes, in one order, and returns to the planner's role.

    A table that only gets an index is locked against writers alone. Every other one is locked against everyone else.
    """
    altered = {change.table for change in changes if not change.is_index}
    _become(cur, TARGETS_ROLE)
    for table in sorted({change.table for change in changes}):
        try:
            query = Q["lock_target" if table in altered else "lock_writers_out"]
            cur.execute(sql.SQL(query).format(table=table_name(table)))
        except errors.InsufficientPrivilege as error:
            raise _not_ours(name, table, error) from None
    _become(cur, PLANNER)


def _not_ours(name: str, table: str, error: psycopg2.Error) -> Refusal:
    return Refusal(
        f"{name}: {TARGETS_ROLE} may not alter {table}: {first_line(error)}",
        next_command=f"alter table {table} owner to {TARGETS_ROLE}, then lockstep migrate {name} --propose",
    )


def _become(cur: cursor, role: str) -> None:
    """Runs the rest of the transaction under this role. Raises `Refusal` if the login may not take the role on."""
    try:
        become(cur, role)
    except Refusal as refused:
        then = f"the same as the login that ran lockstep migrate, or grant {TARGETS_ROLE} to this one"
        raise Refusal(f"this login may not alter targets: {refused.message}", next_command=then) from None


def applied(cur: cursor, pipeline: str, digest: str) -> Any | None:
    """Returns the newest decision that ran a proposal of this digest, or None."""
    cur.execute(Q["altered"], {"pipeline": pipeline, "digest": digest})
    return maybe(cur)


def _of_totals(cur: cursor, pipeline: Pipeline, columns: Sequence[Column]) -> Iterator[Unsafe]:
    """Yields the first misfit of a table of totals. No change of it is safe, because a null is no total."""
    try:
        fit.require_columns(cur, pipeline, columns)
        fit.require_key(cur, pipeline)
    except Refusal as refusal:
        recipe = "totals begin at the log's start: lockstep new ANOTHER_NAME --topic TOPIC, with another table"
        yield Unsafe(pipeline.first.table, None, _without_name(refusal), recipe, blocks=True)


def _of_rows(
    cur: cursor, pipeline: Pipeline, columns: Sequence[Column], rows: Mapping[str, Any]
) -> Iterator[Change | Unsafe]:
    table, target = pipeline.first.table, pipeline.first
    key = target.key if isinstance(target, Keyed) else ()
    order = target.order_by if isinstance(target, Keyed) else None
    for name, type_ in TARGET_COLUMNS:
        if name not in rows or rows[name].type != type_:
            found = f"{table} needs a column {name} of type {type_}"
            recipe = (
                "coordinates of old rows cannot be made up: lockstep new ANOTHER_NAME --topic TOPIC, with another table"
            )
            yield Unsafe(table, name, found, recipe, blocks=True)
    for column in columns:
        row = rows.get(column.name)
        if row is None and (column.name in key or column.name == order):
            what = "a key" if column.name in key else "order_by"
            found = f"{table} has no column {column.name}, which is {what}; old rows have no value there"
            recipe = "lockstep new ANOTHER_NAME --topic TOPIC, with another table, then read the log from its start"
            yield Unsafe(table, column.name, found, recipe, blocks=True)
        elif row is None:
            yield _added(cur, table, column)
        elif not is_kept(column.postgres_type, row.type):
            yield _widened(cur, table, column, row, is_key=column.name in key)
    filled = {*TARGET_COORDINATES, *(VERSION_NAMES if isinstance(target, History) else ())}
    yield from _kept_columns(table, {column.name for column in columns}, rows, filled)
    if not isinstance(pipeline.guarantee, Delivered):
        try:
            require_versions(pipeline, columns, rows)
            fit.require_key(cur, pipeline)
        except Refusal as refusal:
            yield Unsafe(table, None, _without_name(refusal), refusal.next_command or "another table", blocks=True)


def _kept_columns(table: str, decoded: set[str], rows: Mapping[str, Any], filled: set[str]) -> Iterator[Unsafe]:
    missing = sorted(decoded - rows.keys())
    for name, row in rows.items():
        if name in decoded or name in filled:
            continue
        if row.must_be_given:
            found = f"{table}.{name} is not null, and the definition does not decode it"
            recipe = f"alter table {table} alter column {name} drop not null, in target.sql"
        else:
            found = f"{table}.{name} is not in the definition; it stays, and new rows hold its default"
            recipe = f"to drop it: alter table {table} drop column if exists {name}, in target.sql"
            if missing:
                recipe += f"; to rename it: alter table {table} rename column {name} to {missing[0]}, typed once"
        yield Unsafe(table, name, found, recipe, blocks=row.must_be_given)


def _added(cur: cursor, table: str, column: Column) -> Change:
    type_ = fit.written_alike(column.postgres_type)
    statement = _statement(cur, "add_column", table, column.name, type_)
    return Change(table, column.name, None, type_, statement, blocks=True, rewrites=False)


def _widened(cur: cursor, table: str, column: Column, row: Any, *, is_key: bool) -> Change | Unsafe:
    staged = fit.written_alike(column.postgres_type)
    wanted = wider(row.type, staged)
    blocks = not fit.can_hold(cur, column, row)
    found = f"{table}.{column.name} is {row.type}, and cannot hold each {staged}"
    if is_key or row.is_collated or wanted is None:
        why = (
            "a key"
            if is_key
            else "it has a collation of its own"
            if row.is_collated
            else "no wider type keeps each value"
        )
        recipe = f"give the new type another column name, or another table ({why}); or take the definition back"
        return Unsafe(table, column.name, found, recipe, blocks)
    statement = _statement(cur, "widen_column", table, column.name, wanted)
    return Change(table, column.name, row.type, wanted, statement, blocks, rewrites(row.type, wanted))


def _statement(cur: cursor, query: str, table: str, column: str, type_: str) -> str:
    parts = {"table": table_name(table), "column": sql.Identifier(column), "type": sql.SQL(type_)}
    return sql.SQL(Q[query]).format(**parts).as_string(cur)


def _without_name(refusal: Refusal) -> str:
    return refusal.message.partition(": ")[2]
