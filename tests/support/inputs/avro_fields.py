"""Types of Avro fields with the columns that take them and their values, and bytes that are nearly a record."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from typing import Any

from hypothesis import strategies as st

TEXT = st.text(max_size=8)
WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)
INTS = st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001


def _decimal(precision: int, scale: int, **more: Any) -> tuple[Any, list[str], Any]:
    most = 10**precision - 1
    type_ = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale} | more
    wider = f"decimal({min(38, precision + 3)},{scale})"
    values = st.integers(-most, most) | st.integers(-200, 200)
    return type_, [f"decimal({precision},{scale})", wider], values.map(lambda n: st_decimal(n, scale))


def st_decimal(number: int, scale: int) -> Any:
    """Returns a decimal to the digit. Arithmetic would round it."""
    from decimal import Decimal  # noqa: PLC0415

    sign, digits, _ = Decimal(number).as_tuple()
    return Decimal((sign, digits, -scale))


# A writer's type, the columns that take it, and its values.
FIELDS: list[tuple[Any, list[str], Any]] = [
    ("string", ["string"], TEXT),
    ({"type": "string", "avro.java.string": "String"}, ["string"], TEXT),
    ("int", ["int", "bigint", "double", "decimal(12,2)"], INTS),
    ("long", ["bigint", "decimal(38,9)"], WHOLE),
    ("float", ["float", "double"], st.floats(width=32)),
    ("double", ["double"], st.floats()),
    ("boolean", ["boolean"], st.booleans()),
    ("bytes", ["binary"], st.binary(max_size=20)),
    ({"type": "fixed", "name": "Fixed3", "size": 3}, ["binary"], st.binary(min_size=3, max_size=3)),
    ({"type": "enum", "name": "Enum", "symbols": ["a", "b", "c"]}, ["string"], st.sampled_from("abc")),
    ({"type": "int", "logicalType": "date"}, ["date"], st.dates(date(1, 1, 1), date(9999, 12, 31))),
    ({"type": "long", "logicalType": "timestamp-millis"}, ["timestamp"], MOMENTS),
    ({"type": "long", "logicalType": "timestamp-micros"}, ["timestamp"], MOMENTS),
    ({"type": "string", "logicalType": "uuid"}, ["string"], st.uuids().map(str)),
    _decimal(9, 2),
    _decimal(18, 0),
    _decimal(38, 10),
    _decimal(20, 5, type="fixed", name="Fixed16", size=16),
]
# Types that are left whole.
OTHERS: list[tuple[Any, Any]] = [
    ({"type": "array", "items": "int"}, st.lists(INTS, max_size=3)),
    ({"type": "int", "logicalType": "time-millis"}, st.times()),
    (["null", "int", "string"], st.none() | INTS),
]


def long_number(number: int) -> bytes:
    """Returns a number as Avro writes it."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


ODD = [
    *(b"\xff" * size + b"\x01" for size in (1, 4, 8, 9, 10, 12)), b"\x80" * 9 + b"\x00", b"\x80\x00", b"\x01", b"\x00",
    *map(long_number, (2**31, 2**40, 2**62, -1, -(2**40), 64, 1_000)), b"\xed\xa0\x80", b"\xc0\x80", b"\x7f" * 20,
]  # fmt: skip


def spoiled(body: bytes, chance: random.Random) -> bytes:
    """Returns the bytes with some of them changed, cut off, left out or doubled."""
    out = bytearray(body)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out) + 1)
        match chance.randrange(6):
            case 0 if at < len(out):
                out[at] ^= 1 << chance.randrange(8)
            case 1:
                del out[at:]
            case 2:
                del out[at : at + chance.randint(1, 4)]
            case 3:
                out[at:at] = out[: chance.randint(1, 9)]
            case 4:
                out[at : at + 1] = chance.choice(ODD)
            case _:
                out[at:at] = chance.choice(ODD)
    return bytes(out)
