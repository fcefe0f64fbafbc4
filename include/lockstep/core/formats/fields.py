"""Declares the columns of formats whose records have named fields."""

from __future__ import annotations

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.columns import IDENTIFIER, Column, parse_columns


class NamedFields:
    """The base of formats whose records have named fields. Some are columns, and others gather in `rest`."""

    __slots__ = ()
    schema: str
    rest: str | None

    @property
    def declared(self) -> tuple[Column, ...]:
        """Returns the columns that are fields of the record."""
        return tuple(column for column in parse_columns(self.schema) if column.name != self.rest)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the decoded columns, in the schema's order. The rest stands last if the schema has no column for it."""
        return _with_rest(self.schema, self.rest)


def refuse_bad_rest(rest: str | None, schema: str) -> None:
    """Refuses a rest that is no name of a string column."""
    if rest is None:
        return
    if not isinstance(rest, str) or not IDENTIFIER.match(rest):
        raise BadDefinition(f"format.rest is {rest!r}: it must be a column's name")
    for column in _with_rest(schema, rest):
        if column.name == rest and column.type != "string":
            raise BadDefinition(f"format.rest: column {rest!r} is {column.type}, and must be string")


def refuse_no_column(field: str, name: str | None, columns: tuple[Column, ...]) -> None:
    """Refuses a name that is none of the columns."""
    names = [column.name for column in columns]
    if name is not None and name not in names:
        raise BadDefinition(f"{field}: {name!r} is not a column of the schema ({', '.join(names)})")


def _with_rest(schema: str, rest: str | None) -> tuple[Column, ...]:
    columns = parse_columns(schema)
    known = rest is None or rest in {column.name for column in columns}
    return columns if known or rest is None else (*columns, Column(rest, "string"))
