"""Parses the schema language of a definition: `name type, name type`, with types that every store knows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.errors import BadDefinition, quoted
from lockstep.core.records import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterable

IDENTIFIER = re.compile(r"^[a-z_][a-z0-9_]{0,62}\Z")
MAX_PRECISION = 38
NUL = "\x00"
NUL_REASON = "holds \\u0000, which Postgres cannot store"

# The Postgres type of the staged column, by a definition's type. COPY BINARY does no casts: it must match to the bit.
POSTGRES = {
    "string": "text",
    "boolean": "boolean",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "timestamp": "timestamptz",
    "binary": "bytea",
}
_DEFINED = {staged: type_ for type_, staged in POSTGRES.items()} | {"timestamp with time zone": "timestamp"}
# Types of Postgres whose values are written alike, and convert into one another.
WHOLE_TYPES = ("smallint", "integer", "bigint")
FLOAT = ("real", "double precision")
TEXT = ("text", "character varying")
ORDERS_VERSIONS = ("timestamp", "date", "smallint", "int", "bigint")  # types of a moment from which a version is valid
VERSION_NAMES = ("valid_from", "valid_until", "_deleted")  # of a history's rows. Lockstep fills them
SYSTEM_NAMES = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})  # Postgres has them in every table
_DECIMAL = re.compile(r"^decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)\Z", re.ASCII)
_COLUMN = re.compile(r"^\s*(\S+)\s+(\S.*?)\s*$", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """One named, typed column of a decoded record."""

    name: str
    type: str

    def __post_init__(self) -> None:
        if not IDENTIFIER.match(self.name):
            raise BadDefinition(f"column {quoted(self.name)}: a name is lower case letters, digits and _, 63 at most")
        if self.name in RESERVED:
            raise BadDefinition(f"column {self.name!r} is reserved: Lockstep fills it")
        if self.name in SYSTEM_NAMES:
            raise BadDefinition(
                f"column {self.name!r} is a system column of Postgres, which every table has: rename it"
            )
        if self.type not in POSTGRES and not _is_decimal(self.type):
            raise BadDefinition(
                f"column {self.name!r}: type {quoted(self.type)} is not one of {', '.join(POSTGRES)}, decimal(p,s)"
            )

    @property
    def postgres_type(self) -> str:
        """Returns the Postgres type that holds this column exactly."""
        return POSTGRES.get(self.type) or f"numeric({self.type.removeprefix('decimal(').removesuffix(')')})"


def parse_columns(schema: str) -> tuple[Column, ...]:
    """Parses a schema such as `"order_id string, amount decimal(12,2)"`.

    Raises `BadDefinition` for an unknown type, and for a reserved or repeated name, and names it.
    """
    if not isinstance(schema, str):
        raise BadDefinition(f"schema is {schema!r}: it must be a text such as 'id string, n int'")
    columns = []
    for part in re.split(r",(?![^(]*\))", schema):
        match = _COLUMN.match(part)
        if match is None:
            raise BadDefinition(f"schema: {quoted(part.strip())} is not `name type`")
        columns.append(Column(match[1], re.sub(r"\s+", "", match[2].lower())))
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise BadDefinition(f"schema: column {name!r} stands there twice")
    return tuple(columns)


def staged_column(name: str, postgres_type: str) -> Column:
    """Returns the column whose values are staged as this type of Postgres."""
    type_ = _DEFINED.get(postgres_type)
    return Column(name, type_ or postgres_type.replace("numeric(", "decimal("))


def digits(type_: str) -> tuple[int, int]:
    """Returns precision and scale of `decimal(p,s)`."""
    precision, scale = type_.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def _is_decimal(type_: str) -> bool:
    match = _DECIMAL.match(type_)
    return match is not None and 0 <= int(match[2]) <= int(match[1]) <= MAX_PRECISION and int(match[1]) > 0


def version_misfit(order_by: str | None, columns: Iterable[Column]) -> str | None:
    """Says, with the field's name, why these columns make no versions ordered by this one. None if they do."""
    types = {column.name: column.type for column in columns}
    for name in VERSION_NAMES:
        if name in types:
            return f"column {name}: Lockstep fills it in a history; give the record's another name"
    found = types.get(order_by) if order_by else None
    if found is None or found in ORDERS_VERSIONS or _is_decimal(found):
        return None
    return (
        f"target.order_by: {order_by!r} is {found}: a version begins at a {', '.join(ORDERS_VERSIONS)} or decimal(p,s)"
    )
