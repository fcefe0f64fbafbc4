"""Converts values for Arrow. Each is exactly of its column's type, or is refused with the reason."""

from __future__ import annotations

import json
import math
import re
import struct
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lockstep.core.pipeline.columns import MAX_PRECISION, NUL, NUL_REASON, digits

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.pipeline.columns import Column

ODD_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
BITS = {"smallint": 16, "int": 32, "bigint": 64}
PLAIN = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
}


def arrow_type(column: Column) -> pa.DataType:
    """Returns the Arrow type of this column for Spark and the staging table."""
    return PLAIN.get(column.type) or pa.decimal128(*digits(column.type))


def taker(column: Column) -> Callable[[Any], Any]:
    """Returns a function from a value, or null, to the column's. It raises `ValueError` with column and reason."""
    take: Callable[[Any], Any]
    if column.type.startswith("decimal"):
        take = _decimal(column)
    elif column.type in BITS:
        take = _whole(column)
    else:
        take = {
            "string": _text,
            "boolean": _boolean,
            "float": _float,
            "double": _double,
            "date": _date,
            "timestamp": _timestamp,
            "binary": _bytes,
        }[column.type]

    def taken(value: Any) -> Any:
        if value is None:
            return None
        try:
            return take(value)
        except TypeError:
            raise ValueError(f"column {column.name}: not a {column.type}") from None
        except (ValueError, OverflowError) as error:
            raise ValueError(f"column {column.name}: {error}") from None

    return taken


def json_text(value: Any) -> str:
    """Returns a nested value as JSON: decimals, dates and times as text, bytes in base64.

    Raises `ValueError` for values that JSON or Postgres cannot hold.
    """
    text = json.dumps(value, default=_json_of, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return storable(text)


def storable(text: str) -> str:
    r"""Returns the JSON text itself. Raises `ValueError` if Postgres could not store it as jsonb.

    Such a text holds `\u0000` or half a surrogate pair.
    """
    if ODD_ESCAPE.search(text):
        try:
            plain = json.dumps(json.loads(text, parse_float=str, parse_int=str), ensure_ascii=False)
        except RecursionError:
            raise ValueError("is nested too deep") from None
        if "\\u0000" in plain.replace("\\\\", ""):
            raise ValueError(NUL_REASON)
        _text(plain)
    return _text(text)


def _json_of(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    if NUL in value:
        raise ValueError(NUL_REASON)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half a surrogate pair, which is no text") from None
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(column: Column) -> Callable[[Any], int]:
    bound = 1 << (BITS[column.type] - 1)

    def whole(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError
        if not -bound <= value < bound:
            raise ValueError(f"does not fit {column.type}")
        return value

    return whole


def _decimal(column: Column) -> Callable[[Any], Decimal]:
    precision, scale = digits(column.type)
    step = Decimal(1).scaleb(-scale)
    exact = Context(prec=2 * MAX_PRECISION, traps=[Inexact, InvalidOperation])

    def decimal(value: Any) -> Decimal:
        if not isinstance(value, Decimal | int) or isinstance(value, bool):
            raise TypeError
        try:
            narrow = Decimal(value).quantize(step, context=exact)
        except (Inexact, InvalidOperation):
            narrow = None
        if narrow is None or len(narrow.as_tuple().digits) > precision or not narrow.is_finite():
            raise ValueError(f"does not fit {column.type}")
        return narrow

    return decimal


def _double(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError
    wide = float(value)
    if wide != value and not math.isnan(wide):
        raise ValueError("does not fit double")
    return wide


def _float(value: Any) -> float:
    wide = _double(value)
    try:
        (narrow,) = struct.unpack("<f", struct.pack("<f", wide))  # in native order it would not complain
    except OverflowError:
        raise ValueError("does not fit float") from None
    # A fraction is the nearest float, since Python has no type for it. A whole number is itself, or it does not fit.
    if (isinstance(value, int) and narrow != value) or (wide and not narrow):
        raise ValueError("does not fit float")
    return wide


def _date(value: Any) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError
    return value


def _timestamp(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError
    return bytes(value)
