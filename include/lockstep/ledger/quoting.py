"""Quotes names for statements that are put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

if TYPE_CHECKING:
    from collections.abc import Iterable


def table_name(table: str) -> sql.Identifier:
    """Quotes the `schema.table` of a definition."""
    return sql.Identifier(*table.split("."))


def typed_columns(columns: Iterable[tuple[str, str]]) -> sql.Composed:
    """Returns names with their Postgres types, as `create table` takes them."""
    return sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in columns)


def each_name(template: str, names: Iterable[str], joined_by: str = ", ") -> sql.Composed:
    """Returns a piece of SQL for each name, such as `t.{0} = n.{0}`, joined to one."""
    return sql.SQL(joined_by).join(sql.SQL(template).format(sql.Identifier(name)) for name in names)
