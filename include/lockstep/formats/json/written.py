"""Reads one JSON value, or a key of plain text, as a column's value, or gives the reason why not."""

from __future__ import annotations

import base64
import binascii
import json
import re
from decimal import Decimal, DecimalException
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from lockstep.core.pipeline.columns import NUL, NUL_REASON
from lockstep.core.text import is_utf8
from lockstep.formats.json.literal import Literal
from lockstep.formats.json.moments import read_date, read_timestamp
from lockstep.formats.values import BITS, PLAIN, taker

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.pipeline.columns import Column

    Read = Callable[[Any], Any]

WHOLE_NUMBER = re.compile(r"-?\d{1,20}\Z", re.ASCII)
WRITTEN_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\Z", re.ASCII)
TEXT_OR_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|\s+', re.DOTALL)
SPACE = frozenset(" \t\r\n")
TRUTHS = {"true": True, "false": False}
HALF_PAIR = "holds half a surrogate pair, which is no text"


def literal_reader(column: Column) -> Read:
    """Returns a function from a value of JSON to the column's, and from null to null.

    Numbers and nested values are `Literal`. Raises `ValueError` with column and reason.
    """
    read = _reading(column)

    def of_value(value: Any) -> Any:
        if value is None:
            return None
        try:
            return read(value)
        except TypeError:
            raise ValueError(f"column {column.name}: not a {column.type}") from None
        except ValueError as error:
            raise ValueError(f"column {column.name}: {error}") from None

    return of_value


def key_reader(column: Column) -> Callable[[bytes | None], Any]:
    """Returns a function from a Kafka key of plain text to the column's value. Raises `ValueError` for any other key."""
    read = _reading(column)

    def of_key(key: bytes | None) -> Any:
        if key is not None and column.type == "binary":
            return key
        try:
            return read(_as_json(key, column))
        except (TypeError, ValueError):
            raise ValueError(f"tombstone: its key is not a {column.type}") from None

    return of_key


def _as_json(key: bytes | None, column: Column) -> Any:
    """Returns a key of plain text as a value of JSON, or null without a key."""
    text = key.decode() if key is not None else None
    if text is not None and column.type in {*BITS, "float", "double"}:
        return Literal(text)
    return TRUTHS.get(text or "") if column.type == "boolean" else text


def _reading(column: Column) -> Read:
    if column.type in BITS:
        return _whole(column)
    if column.type.startswith("decimal"):
        return _decimal(column)
    if column.type in {"float", "double"}:
        return _real(column)
    reads: dict[str, Read] = {
        "string": written_text,
        "boolean": _boolean,
        "binary": _bytes,
        "date": read_date,
        "timestamp": read_timestamp,
    }
    return reads[column.type]


def written_text(value: Any) -> str:
    """Returns a text, or any other value as the producer wrote it, without spaces between its parts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise TypeError
    text = _compacted(value) if isinstance(value, Literal) and value[0] in "[{" else str(value)
    if NUL in text:
        raise ValueError(NUL_REASON)
    if not is_utf8(text):
        raise ValueError(HALF_PAIR)
    return text


def _compacted(value: Literal) -> str:
    if "\\" in value:
        return TEXT_OR_SPACE.sub(_compact, value)
    return str(value) if SPACE.isdisjoint(value) else msgspec.json.format(str(value), indent=-1)


def _compact(found: re.Match[str]) -> str:
    token = found[0]
    if token[0] != '"':
        return ""
    if "\\" not in token:
        return token
    plain = json.dumps(json.loads(token), ensure_ascii=False)
    return plain if is_utf8(plain) else token


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(column: Column) -> Read:
    take = taker(column)

    def whole(value: Any) -> int:
        if not isinstance(value, Literal) or not WHOLE_NUMBER.match(value):
            raise TypeError
        try:
            number: int = take(int(value))
        except ValueError:
            raise TypeError from None
        return number

    return whole


def _decimal(column: Column) -> Read:
    take = taker(column)

    def decimal(value: Any) -> Decimal:
        if not isinstance(value, str) or not WRITTEN_NUMBER.match(value):
            raise TypeError
        try:
            number: Decimal = take(Decimal(value))
        except (DecimalException, ValueError):
            raise ValueError(f"does not fit {column.type}") from None
        return number

    return decimal


def _real(column: Column) -> Read:
    type_ = PLAIN[column.type]

    def real(value: Any) -> float:
        if not isinstance(value, Literal) or not WRITTEN_NUMBER.match(value):
            raise TypeError
        number: float = pa.scalar(str(value)).cast(type_).as_py()  # rounded once, also to a float of 32 bits
        if abs(number) == float("inf"):
            raise ValueError("not a finite number")
        return number

    return real


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str) or isinstance(value, Literal):
        raise TypeError
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except binascii.Error:
        raise TypeError from None
