"""Derives the Avro schema of a feed's records from the columns of its table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMESPACE = "lockstep"
AVRO_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\Z")
_DIGITS = re.compile(r"^numeric\((\d+),(\d+)\)\Z")
_SECOND_DIGITS = re.compile(r"^(timestamp)\(\d\)")  # of a time that keeps fewer of them
# A column's type in Postgres → its type in Avro. All others are strings, as Postgres writes them.
AVRO_TYPES: Mapping[str, Any] = {
    "boolean": "boolean",
    "smallint": "int",
    "integer": "int",
    "bigint": "long",
    "real": "float",
    "double precision": "double",
    "bytea": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp with time zone": {"type": "long", "logicalType": "timestamp-micros"},
}
_SOURCE = (
    ("target", "string"),
    ("number", "long"),
    ("seq", "long"),
    ("kind", "string"),
    ("batch", ["null", "long"]),
    ("topic", ["null", "string"]),
    ("partition", ["null", "int"]),
    ("offset", ["null", "long"]),
    ("at", AVRO_TYPES["timestamp with time zone"]),
)


@dataclass(frozen=True, slots=True, order=True)
class TableColumn:
    """A column of a table, with its type as Postgres writes it: `numeric(12,2)`."""

    name: str
    type: str

    @property
    def avro(self) -> Any:
        """Returns the column's type in Avro, without null."""
        found = _DIGITS.match(self.type)
        if found and int(found[2]) <= int(found[1]):
            return {"type": "bytes", "logicalType": "decimal", "precision": int(found[1]), "scale": int(found[2])}
        return AVRO_TYPES.get(_SECOND_DIGITS.sub(r"\1", self.type), "string")


def schema_of_feed(name: str, columns: Sequence[TableColumn], shape: str) -> dict[str, Any]:
    """Returns the schema of a feed's values: the row, or for the shape `change` a document with the row twice.

    Every column may be null. Raises `BadDefinition` for a column whose name is none in Avro.
    """
    odd = next((column.name for column in columns if not AVRO_NAME.match(column.name)), None)
    if odd is not None:
        raise BadDefinition(f"the column {odd!r} has a name that Avro does not take: letters, digits and '_'")
    fields = [{"name": column.name, "type": ["null", column.avro], "default": None} for column in columns]
    row = {"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields}
    if shape == "row":
        return row
    source = {
        "type": "record",
        "name": f"{name}_source",
        "fields": [{"name": field, "type": type_} for field, type_ in _SOURCE],
    }
    return {
        "type": "record",
        "name": f"{name}_change",
        "namespace": NAMESPACE,
        "fields": [
            {"name": "op", "type": "string"},
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", f"{NAMESPACE}.{name}"], "default": None},
            {"name": "source", "type": source},
        ],
    }


def first_difference(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Returns in words the first column that two schemas of a feed disagree on, or None."""
    before, after = _columns(earlier), _columns(now)
    for name in [*before, *(each for each in after if each not in before)]:
        if before.get(name) != after.get(name):
            return f"column {name} was {_shown(before.get(name))} and is {_shown(after.get(name))}"
    return None


def _columns(schema: Any) -> dict[str, Any]:
    """Returns the types of a row's columns by name. A document of a change has its row in the field `before`."""
    fields = {field["name"]: field["type"] for field in schema.get("fields", ())} if isinstance(schema, dict) else {}
    for branch in fields.get("before", ()) if "source" in fields else ():
        if isinstance(branch, dict):
            return _columns(branch)
    return fields


def _shown(type_: Any) -> str:
    types = [each for each in (type_ if isinstance(type_, list) else [type_]) if each != "null"]
    if types in ([], [None]):
        return "not there"
    first = types[0]
    if not isinstance(first, dict):
        return str(first)
    digits = f"({first['precision']},{first.get('scale', 0)})" if "precision" in first else ""
    return f"{first.get('logicalType', first['type'])}{digits}"
