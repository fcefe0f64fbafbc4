"""Converts Protobuf's values: well-known types, enums, and nested values in JSON. Nothing is rounded or made up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor as Field

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN = "google.protobuf."
ANY, TIMESTAMP_TYPE, DURATION_TYPE = f"{KNOWN}Any", f"{KNOWN}Timestamp", f"{KNOWN}Duration"
STRUCT_TYPE, LIST_VALUE, JSON_VALUE = f"{KNOWN}Struct", f"{KNOWN}ListValue", f"{KNOWN}Value"
WRAPPERS = frozenset(
    f"{KNOWN}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
SECOND_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799  # the years 1 to 9999
MOST_SECONDS = 315_576_000_000  # of a duration, which is 10,000 years
NANOS_A_SECOND = 1_000_000_000
NANOS_A_MICRO = 1_000
FRACTIONS = (3, 6, 9)  # digits behind the point


def micros_of(timestamp: Any) -> datetime:
    """Returns a timestamp. Raises `ValueError` for one that microseconds cannot hold."""
    seconds, nanos = _moment(timestamp)
    if nanos % NANOS_A_MICRO:
        raise ValueError("has digits below the microsecond, which a timestamp would lose")
    return SECOND_ZERO + timedelta(seconds=seconds, microseconds=nanos // NANOS_A_MICRO)


def timestamp_text(timestamp: Any) -> str:
    """Returns a timestamp as RFC 3339, to the nanosecond."""
    seconds, nanos = _moment(timestamp)
    return f"{(SECOND_ZERO + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()}{_fraction(nanos)}Z"


def duration_text(duration: Any) -> str:
    """Returns a duration in seconds as Protobuf writes it in JSON: `1.500s`."""
    seconds, nanos = _span(duration)
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return f"{sign}{abs(seconds)}{_fraction(abs(nanos))}s"


def seconds_of(duration: Any) -> Decimal:
    """Returns a duration in seconds, to the nanosecond."""
    seconds, nanos = _span(duration)
    return Decimal(seconds * NANOS_A_SECOND + nanos).scaleb(-9)


def enum_name(field: Field, number: int) -> str:
    """Returns the name of an enum's number. Raises `ValueError` for a number that the writer's schema does not name."""
    known = field.enum_type.values_by_number.get(number)
    if known is None:
        raise ValueError(f"{field.enum_type.full_name} has no value {number}")
    return str(known.name)


def text_of(value: Any) -> Any:
    """Returns a string or a map's key. Raises `ValueError` for one that is no UTF-8."""
    if isinstance(value, bytes):  # proto2 does not look, and the parser then gives bytes
        raise ValueError("is not valid UTF-8")  # noqa: TRY004 - the record's fault, not the caller's
    return value


def whole_text(value: int) -> str:
    """Returns a whole number in digits."""
    return str(value)


def is_map(field: Field) -> bool:
    """Returns True for a map, which is a repeated message on the wire."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def default_of(field: Field) -> Any:
    """Returns what a field is that is not set: null where its presence is known, else its type's default."""
    return None if field.has_presence or field.is_repeated else field.default_value


def plain_field(field: Field, found: dict[int, Any]) -> Any:
    """Returns a field's value for JSON, from its message's set fields. Maps are sorted by key."""
    if is_map(field):
        entries = sorted((text_of(key), value) for key, value in found.get(field.number, {}).items())
        of_value = field.message_type.fields_by_number[2]
        return {_key_text(key): _plain(of_value, value) for key, value in entries}
    if field.is_repeated:
        return [_plain(field, each) for each in found.get(field.number, ())]
    value = found.get(field.number, default_of(field))
    return None if value is None else _plain(field, value)


def _plain(field: Field, value: Any) -> Any:
    if field.message_type is not None:
        return _plain_message(value)
    if field.enum_type is not None:
        return None if field.enum_type.full_name == f"{KNOWN}NullValue" else enum_name(field, value)
    return text_of(value) if field.type == Field.TYPE_STRING else value


def _plain_message(message: Any) -> Any:
    descriptor = message.DESCRIPTOR
    found = {field.number: value for field, value in message.ListFields()}
    known = IN_JSON.get(descriptor.full_name)
    if known is not None:
        return known(message)
    plain = {field.name: plain_field(field, found) for field in descriptor.fields}
    name = descriptor.full_name
    if name in WRAPPERS:
        return plain["value"]
    if name == STRUCT_TYPE:
        return plain["fields"]
    if name == LIST_VALUE:
        return plain["values"]
    if name == JSON_VALUE:
        if not found:
            raise ValueError("holds a google.protobuf.Value of no kind")
        (number,) = found
        return plain[descriptor.fields_by_number[number].name]
    return plain


IN_JSON: dict[str, Callable[[Any], Any]] = {TIMESTAMP_TYPE: timestamp_text, DURATION_TYPE: duration_text}


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _moment(timestamp: Any) -> tuple[int, int]:
    seconds, nanos = timestamp.seconds, timestamp.nanos
    if not (FIRST_SECOND <= seconds <= LAST_SECOND and 0 <= nanos < NANOS_A_SECOND):
        raise ValueError(f"{seconds} seconds and {nanos} nanoseconds are no timestamp of the years 1 to 9999")
    return seconds, nanos


def _span(duration: Any) -> tuple[int, int]:
    seconds, nanos = duration.seconds, duration.nanos
    if abs(seconds) > MOST_SECONDS or abs(nanos) >= NANOS_A_SECOND or seconds * nanos < 0:
        raise ValueError(f"{seconds} seconds and {nanos} nanoseconds are no duration")
    return seconds, nanos


def _fraction(nanos: int) -> str:
    """Returns a fraction of a second in 3, 6 or 9 digits, the fewest that hold it, or nothing."""
    if not nanos:
        return ""
    text = f"{nanos:09}"
    return next(f".{text[:places]}" for places in FRACTIONS if not text[places:].strip("0"))
