"""Reads numbers and bytes as Connect writes them into JSON."""

from __future__ import annotations

import math
import re
import struct
from base64 import b64decode
from binascii import Error as NoBase64
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES = 64  # of an unscaled number. A decimal of 38 digits has 16.
MOST_SCALE = 1_000
SCALE_TEXT = re.compile(r"-?[0-9]{1,4}", re.ASCII)


def base64_bytes(value: Any) -> bytes:
    """Returns the bytes of a base64 text. Avro has them as they are."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError
    try:
        return b64decode(value, validate=True)
    except (NoBase64, ValueError):
        raise ValueError("is no base64") from None


def hex_bytes(value: Any) -> bytes:
    """Returns the bytes of a text of hexadecimal digits."""
    if not isinstance(value, str):
        raise TypeError
    try:
        return bytes.fromhex(value) if value.isalnum() or not value else _no_hex()
    except ValueError:
        return _no_hex()


def decimal_of_bytes(scale: Any) -> Callable[[Any], Decimal]:
    """Returns a function to decimals of this scale, from the unscaled number in base64, or from a number of JSON."""
    places = _scale(scale)

    def decimal(value: Any) -> Decimal:
        return _unscaled(value, places) if isinstance(value, str | bytes) else json_number(value)

    return decimal


def decimal_with_scale(value: Any) -> Decimal:
    """Returns the decimal of an object with `scale` and `value`."""
    if not isinstance(value, dict):
        raise TypeError
    return _unscaled(value.get("value"), _scale(value.get("scale")))


def decimal_of_text(value: Any) -> Decimal:
    """Returns the decimal that a text writes out in digits."""
    if not isinstance(value, str):
        raise TypeError
    try:
        made = Decimal(value) if value.isascii() and "_" not in value and value == value.strip() else Decimal("NaN")
    except InvalidOperation:
        made = Decimal("NaN")
    if not made.is_finite():
        raise ValueError("is no finite number")
    return made


def json_number(value: Any) -> Decimal:
    """Returns a number of JSON as a decimal."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError
    return Decimal(value)


def real_of(kind: str, *, was_double: bool = False) -> Callable[[Any], float]:
    """Returns a function from a number to the `float` or `double` that its digits were written of.

    A number that neither is it nor was written of it, to its last digit, is refused. With `was_double`, the writer had a
    double, and a `float` must be the same number. Infinite ones have no place in JSON, and none here.
    """

    def real(value: Any) -> float:
        wide = _finite(value)
        made = _narrow(wide) if kind == "float" else wide
        if (was_double and made != wide) or not _is_written(wide if was_double else made, value):
            raise ValueError(f"does not fit {kind}")
        return made

    return real


def as_whole(value: Any) -> Any:
    """Returns a decimal without a fraction as an int, and anything else as it is."""
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < MOST_BYTES:
        return int(value) if value == value.to_integral_value() else value
    return value


def _finite(value: Any) -> float:
    """Returns the double that is nearest to a number."""
    if value in ("NaN", "Infinity", "-Infinity"):
        raise ValueError("is no finite number")
    try:
        made = value if isinstance(value, float) else float(json_number(value))
    except OverflowError:
        made = math.inf
    if not math.isfinite(made):
        raise ValueError("is no finite number")
    return made


def _narrow(wide: float) -> float:
    """Returns the float of four bytes that is nearest to a double."""
    try:
        made: float = struct.unpack("<f", struct.pack("<f", wide))[0]
    except OverflowError:
        raise ValueError("does not fit float") from None
    return made


def _is_written(made: float, value: Any) -> bool:
    """Returns True if these digits may have been written of this number: 0.1 of the float nearest to it."""
    if not isinstance(value, Decimal) or not made:
        return bool(made == value)
    return abs(Decimal(made) - value) <= Decimal((0, (1,), int(value.as_tuple().exponent)))


def _unscaled(value: Any, places: int) -> Decimal:
    data = base64_bytes(value)
    if not data:
        raise ValueError("is a decimal without a digit")
    if len(data.lstrip(b"\xff" if data[:1] >= b"\x80" else b"\x00")) > MOST_BYTES:
        raise ValueError("is a decimal of too many digits")
    sign, digits, _ = Decimal(int.from_bytes(data, "big", signed=True)).as_tuple()
    return Decimal((sign, digits, -places))


def _scale(given: Any) -> int:
    # The form before the number: a scale of 1e999999999 has a thousand million digits.
    if type(given) is not int and not (isinstance(given, str) and SCALE_TEXT.fullmatch(given)):
        raise ValueError("is a decimal, and its schema names no scale as a whole number")
    places = int(given)
    if abs(places) > MOST_SCALE:
        raise ValueError(f"is a decimal, and its scale is not between -{MOST_SCALE} and {MOST_SCALE}")
    return places


def _no_hex() -> bytes:
    raise ValueError("is no hexadecimal text")
