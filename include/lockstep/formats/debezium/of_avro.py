"""Translates Avro's schemas to Connect's, whose semantic names Connect's converter has put there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.formats.avro.types import branches
from lockstep.formats.debezium.meaning import CONNECT, DECIMAL, TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN_TYPES = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "enum": "string",
    "bytes": "bytes",
    "fixed": "bytes",
    "array": "array",
    "map": "map",
    "record": "struct",
}
# Logical types that come without one of Connect's names mean the same as these.
LOGICAL_NAMES = {
    "decimal": DECIMAL,
    "date": f"{CONNECT}Date",
    "time-millis": f"{CONNECT}Time",
    "time-micros": f"{TIME}MicroTime",
    "timestamp-millis": f"{CONNECT}Timestamp",
    "timestamp-micros": f"{TIME}MicroTimestamp",
}
DEEPEST = 2  # structs within an envelope: the row, and its fields


def connect_schema(type_: Any, named: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Returns Connect's schema of an Avro type, with the fields of a record and of the rows in it."""
    types = branches(type_, named)
    if len(types) != 1:
        return {"type": "union"}
    (one,) = types
    details: Mapping[str, Any] = one if isinstance(one, dict) else {}
    kind = details.get("type", one)
    if isinstance(kind, dict | list):
        return connect_schema(kind, named, depth)
    made: dict[str, Any] = {"type": PLAIN_TYPES.get(str(kind), str(kind))}
    name = details.get("connect.name") or LOGICAL_NAMES.get(str(details.get("logicalType")))
    if name is not None:
        made["name"] = name
    if name == DECIMAL:
        made["parameters"] = {"scale": details.get("scale", 0)}
    if made["type"] == "struct" and depth < DEEPEST:
        fields = details.get("fields", ())
        made["fields"] = [{"field": f["name"], **connect_schema(f["type"], named, depth + 1)} for f in fields]
    return made
