"""Decides what a field's value means: by its schema's semantic name and type, or without a schema by its column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.errors import quoted
from lockstep.core.pipeline.columns import NUL
from lockstep.formats.debezium.exact import (
    as_whole,
    base64_bytes,
    decimal_of_bytes,
    decimal_of_text,
    decimal_with_scale,
    hex_bytes,
    json_number,
    real_of,
)
from lockstep.formats.debezium.moments import (
    MICROS,
    MILLIS,
    NANOS,
    UNIT_PARTS,
    day_of_number,
    day_of_text,
    moment_of_number,
    moment_of_text,
    time_of_number,
)
from lockstep.formats.debezium.written import nested_text
from lockstep.formats.values import BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockstep.core.pipeline.columns import Column

    Read = Callable[[Any], Any]
    Take = Callable[[Any], Any]

TIME, CONNECT, DATA = "io.debezium.time.", "org.apache.kafka.connect.data.", "io.debezium.data."
WHOLE = frozenset(BITS)
REALS = frozenset({"float", "double"})
EXACT = WHOLE | {"decimal"}


def as_it_stands(value: Any) -> Any:
    """Returns the value itself."""
    return value


# The semantic names that change what a value is, each with its reader and the kinds of columns that take it. Other names
# leave a value what its type says: Uuid, Json, Enum and Xml are texts, Year and MicroDuration numbers.
MEANINGS: dict[str, tuple[Read, frozenset[str]]] = {
    f"{TIME}Date": (day_of_number, frozenset({"date"})),
    f"{CONNECT}Date": (day_of_number, frozenset({"date"})),
    f"{TIME}IsoDate": (day_of_text, frozenset({"date"})),
    f"{TIME}Timestamp": (moment_of_number(MILLIS), frozenset({"timestamp"})),
    f"{CONNECT}Timestamp": (moment_of_number(MILLIS), frozenset({"timestamp"})),
    f"{TIME}MicroTimestamp": (moment_of_number(MICROS), frozenset({"timestamp"})),
    f"{TIME}NanoTimestamp": (moment_of_number(NANOS), frozenset({"timestamp"})),
    f"{TIME}ZonedTimestamp": (moment_of_text, frozenset({"timestamp"})),
    f"{TIME}IsoTimestamp": (moment_of_text, frozenset({"timestamp"})),
    f"{TIME}Time": (time_of_number(MILLIS), frozenset({"string"})),
    f"{CONNECT}Time": (time_of_number(MILLIS), frozenset({"string"})),
    f"{TIME}MicroTime": (time_of_number(MICROS), frozenset({"string"})),
    f"{TIME}NanoTime": (time_of_number(NANOS), frozenset({"string"})),
    f"{DATA}VariableScaleDecimal": (decimal_with_scale, EXACT),
}
DECIMAL = f"{CONNECT}Decimal"  # its reader needs the schema's scale
CONNECT_TYPES: dict[str, tuple[Read, frozenset[str]]] = {
    "boolean": (as_it_stands, frozenset({"boolean"})),
    **dict.fromkeys(("int8", "int16", "int32", "int64"), (as_it_stands, EXACT | {"double"})),
    "bytes": (base64_bytes, frozenset({"binary"})),
    **dict.fromkeys(("array", "map", "struct"), (nested_text, frozenset({"string"}))),
}
TEXT_MEANING = (as_it_stands, frozenset[str]())  # of texts
REAL_TYPES = {"float": False, "float32": False, "double": True, "float64": True}  # and whether it is a double
TEXT_READERS: dict[str, Read] = {
    "string": as_it_stands,
    "date": day_of_text,
    "timestamp": moment_of_text,
    "decimal": decimal_of_text,
}
BYTES_READERS: dict[str, Read] = {"base64": base64_bytes, "hex": hex_bytes}


def is_as_it_stands(schema: Mapping[str, Any]) -> bool:
    """Returns True if texts, truths and whole numbers of this schema are what they say."""
    name = str(schema.get("name"))
    return (
        name not in MEANINGS
        and name != DECIMAL
        and CONNECT_TYPES.get(str(schema.get("type")), TEXT_MEANING)[0] is as_it_stands
    )


def reader_by_schema(schema: Mapping[str, Any], column: Column, unit: str | None) -> Read:
    """Returns a function from a value of this schema to one that the column takes. Raises `ValueError` if none does."""
    type_, name, kind = str(schema.get("type")), str(schema.get("name")), column.type.partition("(")[0]
    read: Read
    if name == DECIMAL:
        parameters = schema.get("parameters")
        read, kinds = decimal_of_bytes(parameters.get("scale") if isinstance(parameters, dict) else None), EXACT
    elif name in MEANINGS:
        read, kinds = MEANINGS[name]
    elif type_ == "string":
        return _text_reader(kind, unit)
    elif type_ in REAL_TYPES:
        read, kinds = real_of(kind, was_double=REAL_TYPES[type_]), REALS
    elif type_ in CONNECT_TYPES:
        read, kinds = CONNECT_TYPES[type_]
    else:
        raise ValueError(f"its schema is of no type of Connect: {quoted(type_)}")
    if kind not in kinds:
        raise ValueError(f"{name if name in MEANINGS or name == DECIMAL else type_} does not become a {column.type}")
    return (lambda value: as_whole(read(value))) if kind in WHOLE else read


def reader_without_schema(column: Column, unit: str | None) -> Read:
    """Returns a function from a value without a schema to one that the column takes. Nothing is guessed."""
    kind = column.type.partition("(")[0]

    def read(value: Any) -> Any:
        if isinstance(value, str):
            if kind == "decimal" and unit is None:
                raise ValueError("is text without a schema, digits or base64: say units={...: 'text'}, or send schemas")
            return _text_reader(kind, unit)(value)
        if isinstance(value, dict | list) and kind == "string":
            return nested_text(value)
        if kind in {"date", "timestamp"}:
            if unit is None:
                raise ValueError("is a number without a schema: say its unit in units, or send schemas")
            return day_of_number(value) if kind == "date" else moment_of_number(UNIT_PARTS[unit])(value)
        if kind in REALS:
            return real_of(kind)(value)
        return json_number(value) if kind == "decimal" else as_whole(value) if kind in WHOLE else value

    return read


def _text_reader(kind: str, unit: str | None) -> Read:
    if kind == "binary":
        if unit is None:
            raise ValueError("is text, base64 or hex: say which in units")
        return BYTES_READERS[unit]
    if kind not in TEXT_READERS:
        raise ValueError(f"text does not become a {kind}")
    return TEXT_READERS[kind]


def quick_taker(column: Column, read: Take, take: Take, *, is_plain: bool) -> Take:
    """Returns a function that reads and takes a value, and looks first for one that is taken as it stands.

    `is_plain` says that the reader leaves texts, truths and whole numbers as they are.
    """

    def slow(value: Any) -> Any:
        return take(read(value))

    if column.type in BITS and is_plain:
        low, high = -(1 << BITS[column.type] - 1), 1 << BITS[column.type] - 1
        return lambda value: value if type(value) is int and low <= value < high else slow(value)
    if column.type == "string" and is_plain:
        return lambda value: value if type(value) is str and value.isascii() and NUL not in value else slow(value)
    if column.type == "boolean" and is_plain:
        return lambda value: value if type(value) is bool else slow(value)
    return slow


def identity_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns everything of a field's schema that its reader depends on, as texts."""
    parameters = schema.get("parameters")
    scale = parameters.get("scale") if isinstance(parameters, dict) else None
    return str(schema.get("type")), str(schema.get("name")), str(scale)
