"""Types of Avro fields with the columns that take them and their values, and bytes that are nearly a record."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    import random

TEXT = st.text(max_size=8)
REALS = (0.1, -0.0, float("inf"), float("nan"))
WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)
INTS = st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001


def _decimal(precision: int, scale: int, **more: Any) -> tuple[Any, list[str], Any]:
    most = 10**precision - 1
    type_ = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale} | more
    wider = f"decimal({min(38, precision + 3)},{scale})"
    values = st.integers(-most, most) | st.integers(-200, 200)
    return type_, [f"decimal({precision},{scale})", wider], values.map(lambda n: _exactly(n, scale))


def _exactly(number: int, scale: int) -> Any:
    """Returns a decimal to the digit. Arithmetic would round it."""
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


DAYS, MILLIS, MICROS = (
    {"type": kind, "logicalType": logical}
    for kind, logical in (("int", "date"), ("long", "timestamp-millis"), ("long", "timestamp-micros"))
)
TEN_38 = 10**38
# A writer's type, a column, the bytes of values at the edge, and bytes that only the decoder may judge.
EDGES: dict[str, tuple[Any, str, list[bytes], list[bytes]]] = {
    "boolean": ("boolean", "boolean", [b"\x00", b"\x01"], [b"\x02", b"\xff"]),
    "int": ("int", "bigint", [long_number(2**31 - 1), long_number(-(2**31)), b"\x80\x00"], [long_number(2**31)]),
    "int as decimal": ("int", "decimal(10,0)", [long_number(2**31 - 1)], [long_number(-(2**31) - 1), b""]),
    "long": ("long", "bigint", [*map(long_number, (2**63 - 1, -(2**63)))], [b"\xff" * 9 + b"\x02", b"\xff" * 10 + b"\x01"]),
    "long as decimal": ("long", "decimal(38,19)", [*map(long_number, (2**63 - 1, -(2**63)))], [b"\xff" * 9]),
    "float": ("float", "double", [struct.pack("<f", n) for n in REALS], [b"abc"]),
    "double": ("double", "double", [struct.pack("<d", n) for n in REALS], [b"abcdefg"]),
    "string": ("string", "string", [b"\x00", b"\x04\xc3\xa9"], [b"\x02\xff", b"\x06\xed\xa0\x80", b"\x04a"]),
    "NUL": ("string", "string", [b"\x00", b"\x02a"], [b"\x02\x00", b"\x06a\x00b"]),
    "bytes": ("bytes", "binary", [b"\x00", b"\x04\x00\xff"], [b"\x06ab", long_number(2**40), long_number(2**63 - 1)]),
    "a size below zero": ("bytes", "binary", [b"\x00"], [b"\x01", b"\x03ab", long_number(-(2**63))]),
    "enum": ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, "string", [b"\x00", b"\x02"], [b"\x04", b"\x01"]),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, "binary", [b"\x00\xff"], [b"a", b"abc"]),
    "union": (["null", "int"], "int", [b"\x00", b"\x02\x02"], [b"\x04\x02", b"\x01\x02", b"\x03"]),
    "union with null last": (["string", "null"], "string", [b"\x02", b"\x00\x02a"], [b"\x00", b"\x04"]),
    "null": ("null", "date", [b""], [b"\x00"]),
    "date": (DAYS, "date", [*map(long_number, (-719162, 2932896))], [*map(long_number, (-719163, 2932897))]),
    "micros": (
        *(MICROS, "timestamp", [*map(long_number, (-62135596800000000, 253402300799999999))]),
        [*map(long_number, (-62135596800000001, 253402300800000000))],
    ),
    "millis": (
        *(MILLIS, "timestamp", [*map(long_number, (-62135596800000, 253402300799999))]),
        [*map(long_number, (-62135596800001, 253402300800000, 2**62))],
    ),
    "decimal": (
        *(_decimal(9, 2)[0], "decimal(12,3)", [b"\x00", b"\x02\xff", b"\x08\x3b\x9a\xc9\xff", b"\x12" + b"\xff" * 9]),
        [b"\x08\x3b\x9a\xca\x00", b"\x08\xc4\x65\x36\x00", b"\x12\x80" + b"\x00" * 8],
    ),
    "long decimal": (
        *(_decimal(38, 2)[0], "decimal(38,2)"),
        [b"\x20" + (sign * (TEN_38 - 1)).to_bytes(16, "big", signed=True) for sign in (1, -1)],
        [b"\x20" + TEN_38.to_bytes(16, "big"), b"\x20\x80" + b"\x00" * 15, b"\x22" + b"\x00" * 17],
    ),
}  # fmt: skip
