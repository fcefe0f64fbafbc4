"""Decides if a column may take a field's type: only one that neither loses a digit nor changes a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.pipeline.columns import MAX_PRECISION, digits
from lockstep.formats.protobuf.bounds import TYPE_WORDS, reachable
from lockstep.formats.protobuf.values import (
    ANY,
    DURATION_TYPE,
    TIMESTAMP_TYPE,
    WRAPPERS,
    default_of,
    duration_text,
    enum_name,
    is_map,
    micros_of,
    plain_field,
    seconds_of,
    text_of,
    timestamp_text,
    whole_text,
)
from lockstep.formats.values import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.descriptor import FieldDescriptor as Field

    from lockstep.core.pipeline.columns import Column

    Convert = Callable[[Any], Any]
    FieldReader = Callable[[dict[int, Any]], Any]

# A field's type → the columns that hold each of its values exactly. Only a large uint64 in a bigint is a reject.
COLUMNS_OF: dict[str, tuple[str, ...]] = {
    "bool": ("boolean",),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), ("int", "bigint", "double")),
    **dict.fromkeys(("uint32", "fixed32"), ("bigint", "double")),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), ("bigint",)),
    **dict.fromkeys(("uint64", "fixed64"), ("bigint", "string")),
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string",),
    "bytes": ("binary",),
    "enum": ("string", "int", "bigint"),
    TIMESTAMP_TYPE: ("timestamp", "string"),
    DURATION_TYPE: ("string",),
}
# Those that need no look at a value: the parser has bounded it.
SURE_COLUMNS: dict[str, tuple[str, ...]] = {
    "bool": ("boolean",),
    "bytes": ("binary",),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), ("int", "bigint")),
    **dict.fromkeys(("uint32", "fixed32", "int64", "sint64", "sfixed64"), ("bigint",)),
}
# Digits of the longest value, before and behind the point.
DIGITS_OF: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32", "uint32", "fixed32"), (10, 0)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), (19, 0)),
    **dict.fromkeys(("uint64", "fixed64"), (20, 0)),
    DURATION_TYPE: (12, 9),
}
# The conversions that a value needs on its way into a column of a type.
CONVERSIONS: dict[tuple[str, str], Convert] = {
    (TIMESTAMP_TYPE, "timestamp"): micros_of,
    (TIMESTAMP_TYPE, "string"): timestamp_text,
    (DURATION_TYPE, "string"): duration_text,
    (DURATION_TYPE, "decimal"): seconds_of,
    ("string", "string"): text_of,
    **{(kind, "string"): whole_text for kind in ("uint64", "fixed64")},
}


def fit(field: Field, column: Column) -> FieldReader | None:
    """Returns a function from a message's set fields to the column's value.

    Returns None if the column cannot take the field's type.
    """
    number, wrapped = field.number, _wrapped(field)
    if wrapped is not None:
        inner = _converter(wrapped, column)
        unwrapped = default_of(wrapped)
        if inner is None:
            return None
        return lambda found: inner(_only(found[number], unwrapped)) if number in found else None
    if column.type == "string" and _is_nested(field):
        told = rest_of(field)
        if told is None:
            return None
        return lambda found: None if number not in found and field.has_presence else json_text(told(found))
    convert = None if field.is_repeated else _converter(field, column)
    if convert is None:
        return None
    default = default_of(field)
    return lambda found: None if (value := found.get(number, default)) is None else convert(value)


def sure_field(field: Field, column: Column) -> tuple[int, Any] | None:
    """Returns number and default of a field whose values are the column's as they stand, or None for another one."""
    return _alone(field) if column.type in SURE_COLUMNS.get(_kind(field), ()) else None


def text_field(field: Field, column: Column) -> tuple[int, Any] | None:
    """Returns number and default of a single text in a column of text, or None for another field."""
    return _alone(field) if _kind(field) == column.type == "string" else None


def _alone(field: Field) -> tuple[int, Any] | None:
    return None if field.is_repeated or field.message_type is not None else (field.number, default_of(field))


def rest_of(field: Field) -> FieldReader | None:
    """Returns a function from a message's set fields to the field's value in JSON. Returns None if `Any` may be in it."""
    if field.message_type is not None and ANY in reachable(field.message_type):
        return None
    return lambda found: plain_field(field, found)


def field_type_name(field: Field) -> str:
    """Returns a field's type in readable form: `int32`, `repeated string`, `map of string to shop.Item`."""
    if is_map(field):
        key, value = (field.message_type.fields_by_number[number] for number in (1, 2))
        return f"map of {field_type_name(key)} to {field_type_name(value)}"
    inner = field.message_type or field.enum_type
    name = inner.full_name if inner is not None else TYPE_WORDS[field.type]
    return f"repeated {name}" if field.is_repeated else name


def _kind(field: Field) -> str:
    return field.message_type.full_name if field.message_type is not None else TYPE_WORDS[field.type]


def _wrapped(field: Field) -> Field | None:
    """Returns the one field of a wrapper, or None for other types."""
    if field.is_repeated or _kind(field) not in WRAPPERS:
        return None
    (value,) = field.message_type.fields
    return value


def _is_nested(field: Field) -> bool:
    return field.is_repeated or (field.message_type is not None and _kind(field) not in COLUMNS_OF)


def _only(wrapper: Any, default: Any) -> Any:
    return next((value for _, value in wrapper.ListFields()), default)


def _converter(field: Field, column: Column) -> Convert | None:
    kind = _kind(field)
    of_column = "decimal" if column.type.startswith("decimal") else column.type
    if of_column == "decimal":
        precision, scale = digits(column.type)
        whole, fraction = DIGITS_OF.get(kind, (MAX_PRECISION + 1, 0))
        if whole > precision - scale or fraction > scale:
            return None
    elif column.type not in COLUMNS_OF.get(kind, ()):
        return None
    if kind == "enum" and column.type == "string":
        return lambda number: enum_name(field, number)
    convert: Convert = CONVERSIONS.get((kind, of_column), _unchanged)
    return convert


def _unchanged(value: Any) -> Any:
    return value
