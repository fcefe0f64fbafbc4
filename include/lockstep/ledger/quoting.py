"""Quotes names for statements that are put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.errors import Refusal
from lockstep.core.lake.iceberg import LakeCopy, is_lake_table

if TYPE_CHECKING:
    from collections.abc import Iterable


def table_name(table: str) -> sql.Identifier:
    """Quotes the `schema.table` of a definition. Raises `Refusal` for a lake table that the session has no copy of."""
    if isinstance(table, LakeCopy):
        return sql.Identifier("pg_temp", table.relation)
    return sql.Identifier(*in_database(table).split("."))


def in_database(table: str) -> str:
    """Returns the table as `to_regclass` takes it. Raises `Refusal` for a lake table that the session has no copy of."""
    if isinstance(table, LakeCopy):
        return f'pg_temp."{table.relation}"'
    if is_lake_table(table):
        raise Refusal(f"{table} is a table of the lake, and this works on tables of the database alone")
    return table


def typed_columns(columns: Iterable[tuple[str, str]]) -> sql.Composed:
    """Returns names with their Postgres types, as `create table` takes them."""
    return sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in columns)


def each_name(template: str, names: Iterable[str], joined_by: str = ", ") -> sql.Composed:
    """Returns a piece of SQL for each name, such as `t.{0} = n.{0}`, joined to one."""
    return sql.SQL(joined_by).join(sql.SQL(template).format(sql.Identifier(name)) for name in names)
