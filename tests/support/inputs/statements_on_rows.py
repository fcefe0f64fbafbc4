"""Generates statements on the rows of a table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from support.inputs.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

# Who waits for a lock. Later versions of Postgres give `row share` to those who may insert, as they do `row exclusive`.
MODES = {
    "access share": "reading",
    "row share": "writing",
    "row exclusive": "writing",
    "share update exclusive": "others",
}
MODES |= dict.fromkeys(("share", "share row exclusive", "exclusive", "access exclusive"), "others")
# What a value may become: a little more, a little less.
STEPS = {
    **dict.fromkeys(("bigint", "integer", "numeric", "double precision", "smallint"), ("{c} + 1", "{c} - 1")),
    "timestamp with time zone": ("{c} + interval '1 hour'", "{c} - interval '1 hour'"),
    "interval": ("{c} * 2", "{c} / 2"),
    "text": ("{c} || 'x'", "left({c}, -1)"),
    "character varying": ("{c} || 'x'", "left({c}, -1)"),
    "boolean": ("not {c}", "{c} is null"),
    "jsonb": ("""{c} || '{{"more": 1}}'""", "'{{}}'::jsonb"),
    "json": ("""'{{"more": 1}}'::json""", "'{{}}'::json"),
    "bytea": ("{c} || 'x'::bytea", "''::bytea"),
    "int8range": ("int8range(lower({c}) + 1, upper({c}) + 1)", "int8range(lower({c}), upper({c}) - 1)"),
    "int8multirange": ("{c} + '{{[50, 60)}}'::int8multirange", "'{{}}'::int8multirange"),
    "uuid": ("gen_random_uuid()", "'11111111-1111-1111-1111-111111111111'::uuid"),
    "xid8": ("pg_current_xact_id()", "'3'::xid8"),
    "text[]": ("{c} || 'x'::text", "'{{}}'::text[]"),
    "inet": ("'10.0.0.1'::inet", "'::2'::inet"),
    "name": ("'lockstep_reader'::name", "'x'::name"),
    "oid": ("2::oid", "'lockstep.batch'::regclass::oid"),
    "xid": ("'3'::xid", "'4'::xid"),
}
# Where a column has no value, its step is from here.
ZERO = {
    "timestamp with time zone": "now()",
    "text": "'x'",
    "jsonb": "'{}'",
    "bigint": "0",
    "integer": "0",
    "numeric": "0",
}
ROWS = ("true", "ctid = (select min(ctid) from {t})", "ctid = (select max(ctid) from {t})")
HOW = ("more", "less")


def on_rows(name: str, columns: list[Any], *, is_view: bool) -> Iterator[Statement]:
    """Yields statements on a table's rows: all of them at once, the first and the last."""
    where = ("true",) if is_view else ROWS
    yield Statement("select", name, "", "", f"select * from {name} limit 1")
    yield from _inserts(name, [column for column in columns if not column.given], is_view=is_view)
    for column in columns:
        for how, value in _values(name, column):
            for rows in where:
                changed = f"(r.{column.name})::text is distinct from ({value})::text and {rows.format(t=name)}"
                change = f"update {name} r set {column.name} = {value} where {changed}"
                yield Statement("update", name, column.name, how, change)
    states = {column.name for column in columns} >= {"state", "closed_at"}
    for state in ("committed", "abandoned", "failed", "superseded") if states else ():
        for rows in where:
            change = f"update {name} set state = '{state}', closed_at = clock_timestamp() where {rows.format(t=name)}"
            yield Statement("close", name, "state", state, change)
    for rows in where:
        yield Statement("delete", name, "", "", f"delete from {name} where {rows.format(t=name)}")
    yield Statement("truncate", name, "", "", f"truncate {name}")
    yield Statement("truncate", name, "", "", f"truncate {name} cascade")
    for mode, against in MODES.items():
        yield Statement("lock", name, against, "", f"lock table {name} in {mode} mode")


def _inserts(name: str, columns: list[Any], *, is_view: bool) -> Iterator[Statement]:
    """Yields inserts of default values, of a copied row, and of copies of the first and the last row with one value changed."""
    yield Statement("insert", name, "", "", f"insert into {name} default values")
    names = ", ".join(column.name for column in columns)
    if not names:
        return
    yield Statement("insert", name, "", "", f"insert into {name} ({names}) select {names} from {name} limit 1")
    for column in columns:
        for _, value in _values(name, column):
            copied = ", ".join(value if each is column else f"r.{each.name}" for each in columns)
            for order in ("", "" if is_view else " order by ctid desc"):
                copy = f"insert into {name} ({names}) select {copied} from {name} r{order} limit 1"
                yield Statement("insert", name, "", "", copy)


def _values(name: str, column: Any) -> Iterator[tuple[str, str]]:
    """Yields how a column's value is changed, and to what. A type without its steps raises `KeyError`: it needs some."""
    zero = ZERO.get(column.type)
    now = f"coalesce(r.{column.name}, {zero})" if zero else f"r.{column.name}"
    for how, step in zip(HOW, STEPS[column.type], strict=True):
        yield how, step.format(c=now)
    yield "null", "null"
    if column.type == "text":
        for word in dict.fromkeys(re.findall(r"'([a-z-]{3,20})'::text", column.checks)):
            yield "other", f"'{word}'"
    another = f"o.{column.name}::text <> r.{column.name}::text"
    yield "other", f"(select o.{column.name} from {name} o where {another} limit 1)"
