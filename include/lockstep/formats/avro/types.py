"""Decides if a column may take a writer's type: only one that neither loses a digit nor changes a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.pipeline.columns import digits
from lockstep.formats.values import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockstep.core.pipeline.columns import Column

NESTED = frozenset({"record", "error", "array", "map"})
# A writer's type, with its logical type if it has a known one → the columns that hold each of its values exactly.
FIT = {
    "boolean": {"boolean"},
    "int": {"int", "bigint", "double"},
    "long": {"bigint"},
    "float": {"float", "double"},
    "double": {"double"},
    "string": {"string"},
    "string uuid": {"string"},
    "enum": {"string"},
    "bytes": {"binary"},
    "fixed": {"binary"},
    "int date": {"date"},
    "long timestamp-millis": {"timestamp"},
    "long timestamp-micros": {"timestamp"},
    "int time-millis": {"string"},
    "long time-micros": {"string"},
}
# Logical types that change what a value is without being known here: nothing but the rest may have them.
FOREIGN = frozenset({"timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"})
TIMES = frozenset({"int", "long"})  # the kinds beneath them: nothing else of these becomes text
WHOLE_DIGITS = {"int": 10, "long": 19}


def branches(type_: Any, named: Mapping[str, Any]) -> list[Any]:
    """Returns the types of a union without null, names resolved. A type that is no union is its own only branch."""
    types = type_ if isinstance(type_, list) else [type_]
    whole = [named.get(each, each) if isinstance(each, str) else each for each in types]
    return [each for each in whole if each != "null"]


def type_name(type_: Any) -> str:
    """Returns a type in readable form: `long timestamp-millis`, `decimal(12,2)`, `record Address`, `[int, string]`."""
    if isinstance(type_, list):
        return f"[{', '.join(map(type_name, type_))}]"
    if not isinstance(type_, dict):
        return str(type_)
    logical = type_.get("logicalType")
    if logical == "decimal":
        return f"decimal({type_.get('precision')},{type_.get('scale', 0)})"
    if type_["type"] in {"record", "error", "enum", "fixed"}:
        return f"{type_['type']} {type_.get('name', '')}".rstrip()
    inner = type_["type"]
    return f"{inner if isinstance(inner, str) else type_name(inner)}{f' {logical}' if logical else ''}"


def converter(type_: Any, named: Mapping[str, Any], column: Column) -> Callable[[Any], Any] | None:
    """Returns a function from the writer's decoded values to the column's, or None if the column cannot take the type.

    `named` has the schema's named types, as fastavro has parsed them.
    """
    types = branches(type_, named)
    if column.type == "string" and any(_kind(each) in NESTED for each in types):
        return json_text
    if not all(_fits(each, column) for each in types):
        return None
    in_words = column.type == "string" and any(_kind(each) in TIMES for each in types)
    return _in_words if in_words else unchanged


def _fits(type_: Any, column: Column) -> bool:
    kind, logical = _kind(type_), type_.get("logicalType") if isinstance(type_, dict) else None
    if logical in FOREIGN:
        return False
    writers = _writers_digits(type_, kind, logical)
    if column.type.startswith("decimal"):
        precision, scale = digits(column.type)
        return writers is not None and writers[1] <= scale and writers[0] - writers[1] <= precision - scale
    if logical == "decimal" and writers:
        return False
    known = f"{kind} {logical}"
    return column.type in FIT.get(known if known in FIT else kind, ())


def _writers_digits(type_: Any, kind: str, logical: str | None) -> tuple[int, int] | None:
    """Returns precision and scale that hold every value of an exact number, or None for other types."""
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        return int(type_["precision"]), int(type_.get("scale", 0))
    return (WHOLE_DIGITS[kind], 0) if kind in WHOLE_DIGITS and logical is None else None


def _kind(type_: Any) -> str:
    kind = type_["type"] if isinstance(type_, dict) else type_
    return kind if isinstance(kind, str) else _kind(kind)


def unchanged(value: Any) -> Any:
    """Returns a decoded value that needs no conversion."""
    return value


def _in_words(value: Any) -> Any:
    """Formats times as ISO 8601. Returns text unchanged."""
    return value.isoformat() if hasattr(value, "isoformat") else value
