"""Makes hostile records, schemas and options, as anyone with access to a topic, a registry or a setting may try."""

from __future__ import annotations

import gzip
import itertools
import json
import pickle
import random
import struct
from typing import Any

TEXTS = (
    "",
    " ",
    "\0",
    "\x1b]0;PWNED\x07\x1b[2J",
    "\x9b31m",
    "\u202egnp.exe",
    "\ufeff",
    "\ufffe\uffff",
    "\u2028\u2029",
    "<script>alert(1)</script>",
    "'; drop table lockstep.commit; --",
    "\\N",
    "\\.",
    "\\x00ff",
    '\t\n\r\\"',
    '"quoted","cells"',
    "=cmd|' /C calc'!A0",
    "{{7*7}}",
    "{% raw %}",
    "${jndi:ldap://127.0.0.1/a}",
    "%s%n%x",
    "../../../etc/passwd",
    "$(id)`id`",
    "null",
    "NaN",
    "İıſ",
    "\U0001f600" * 20,
    "e\u0301" * 50,
    "x" * 100_000,
    "1;2;3",
    "# comment",
    "\x7f\x08",
)
NUMBERS = (
    "0", "-0", "-0.0", "1e0", "1E5", "1e308", "1e309", "-1e309", "1e-400", "1e999999999", "1e-999999999", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
    "0.1", "0.10000000000000000555", "123456789012345678901234567890", "9" * 5_000, "0." + "0" * 5_000 + "1", "01", "+1", "1.",
    ".5", "0x10", "1_000", "NaN", "Infinity", "-Infinity", "1e", "--1", "1 2", "\u0661",
)  # fmt: skip
TIMES = (
    "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "10000-01-01T00:00:00Z", "2026-02-29",
    "2026-02-30T00:00:00Z", "2026-13-01", "2026-01-01T24:00:00Z", "2026-01-01T23:59:60Z", "2026-01-01T00:00:00+99:99",
    "2026-01-01T00:00:00.123456789Z", "-0044-03-15", "+292278994-08-17T07:12:55.807Z", "now", "infinity", "epoch", "today",
    "2026-W01-1", "1767225600", "T00:00:00",
)  # fmt: skip
FIELDS = ("id", "n", "amount", "at", "ok")
LITERALS = ("true", "false", "null", "[]", "{}", '""', "[[[[]]]]", '{"id":1}', '"1"', "0", '["a",1,null]')
BROKEN = (
    b"", b" ", b"{", b"}", b"[]", b"null", b"1", b'"a"', b"{}{}", b'{"id":"a"}x', b'{"id":"a"}\n{"id":"b"}', b"{'id':1}",
    b'{"id":"a",}', b'{"id" "a"}', b'{"id":"a"', b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b"\x00", b"\x00" * 100,
    b"\xed\xa0\x80",
    b"\xc0\xaf", b"\xf5\x80\x80\x80", b'{"id":"\xff"}', b'{"id":"\\ud800"}', b'{"id":"\\u0000"}', b'{"\\u0000":1}',
    b'{"id":"a","id":"b"}', b'{"ID":"a"}', b'{"id ":"a"}', b'{"_offset":1,"_stream":2,"_batch":3}', b'{"":1}', b"<a/>", b"a: b",
    gzip.compress(b'{"id":"a"}'), pickle.dumps({"id": "a"}), b"\xac\xed\x00\x05sr", "{}".encode("utf-16"),
    "{}".encode("utf-32"),
    b"/**/{}", b"{//\n}", b'{"id":\x0b1}', b'{"id":"\x01"}',
)  # fmt: skip
HEADERS: tuple[list[tuple[str, bytes | None]], ...] = (
    [],
    [("", b"")],
    [("h", None)],
    [("h", b"\xff\x00")] * 3,
    [("h\u202e", b"\x1b[2J")],
    [("a", b"x" * 50_000)],
    [(f"h{n}", b"v") for n in range(2_000)],
    [("id", b"1"), ("id", b"2")],
)
KEYS: tuple[bytes | None, ...] = (
    None,
    b"",
    b"\x00",
    b"\xff\xfe",
    b"k" * 200_000,
    b"\x00\x00\x00\x00\x01k",
    "schlüssel".encode(),
    b"\x1b[2J",
)

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def _values() -> list[bytes | None]:
    made: list[bytes | None] = [None, *BROKEN]
    for field in FIELDS:
        made += [f'{{"{field}":{literal}}}'.encode() for literal in LITERALS]
    for text in TEXTS:
        made += [
            json.dumps({"id": text, "n": 1}).encode(),
            json.dumps({text: 1, "id": "a"}, ensure_ascii=False).encode(),
        ]
    for number in NUMBERS:
        made += [f'{{"id":"a","n":{number}}}'.encode(), f'{{"id":"a","amount":{number}}}'.encode()]
    made += [json.dumps({"id": "a", "at": moment}).encode() for moment in TIMES]
    for depth in (1, 10, 63, 64, 100, 500, 900, 1_000, 5_000, 100_000):
        made += [
            b'{"id":' + b"[" * depth + b"]" * depth + b"}",
            b'{"id":"a","x":' + b'{"a":' * depth + b"1" + b"}" * (depth + 1),
        ]
        made += [b"[" * depth, b'{"id":"a","x":"' + b"{[" * depth + b'"}']
    made.append(json.dumps({f"f{n}": n for n in range(20_000)}).encode())
    made.append(b'{"id":"a",' + b" " * 300_000 + b'"n":1}')
    return made


def records() -> list[Record]:
    """Returns at least 400 hostile records, with good ones in between."""
    made: list[Record] = [(b"k", value, []) for value in _values()]
    made += [(key, b'{"id":"a","n":1}', headers) for key, headers in itertools.product(KEYS, HEADERS)]
    chance = random.Random(7)  # noqa: S311 - spread, not secrecy
    made += [(b"k", chance.randbytes(chance.randrange(200)), []) for _ in range(40)]
    for place in range(0, len(made), 10):
        made.insert(place, (b"good", json.dumps({"id": f"good{place}", "n": place}).encode(), []))
    return made


def avro_records(schema_id: int) -> list[Record]:
    """Returns bytes in Confluent's wire format, valid or not.

    The schema is `{id: string, n: int, amount: decimal(9,2), x: union}`.
    """
    head = b"\x00" + schema_id.to_bytes(4, "big")
    chance = random.Random(8)  # noqa: S311 - the same
    good = head + b"\x02a\x02\x02\x01\x00"
    bodies = [good, *(good[:length] for length in range(len(good))), good + b"x"]
    lengths = [b"\xff" * size + b"\x01" for size in range(1, 12)]
    bodies += [head + length + rest for length in lengths for rest in (b"", b"a", b"\x00" * 30)]
    bodies += [
        head + b"\x02a\x02\x02\x01" + branch.to_bytes(1, "big") + b"\x02" * size
        for branch in range(8)
        for size in (0, 5, 3_000)
    ]
    bodies += [b"\x00" + n.to_bytes(4, "big") + b"x" for n in (0, 77, 2**31 - 1, 2**32 - 1)]
    bodies += [head + chance.randbytes(chance.randrange(60)) for _ in range(150)]
    bodies += [b"\x01" + head[1:] + good[5:], *(body for body in BROKEN)]
    bodies += [head + b"\x02a\x02" + struct.pack("<q", n) for n in (-1, 2**62)]
    bodies += [value for value in _values()[:150] if value is not None]
    bodies += [head + body for body in _odd_and_right()]
    return [(b"k", body, []) for body in bodies]


def _odd_and_right() -> list[bytes]:
    """Returns bodies of `AVRO` at the edges of what it allows, and one step past them."""

    def body(id_: bytes = b"a", n: int = 1, amount: bytes = b"\x01", x: bytes = b"\x00") -> bytes:
        return _long(len(id_)) + id_ + _long(n) + _long(len(amount)) + amount + x

    numbers = (0, -1, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63))
    amounts = (
        b"",
        b"\x00" * 9,
        b"\xff" * 9,
        b"\x3b\x9a\xc9\xff",
        b"\x3b\x9a\xca\x00",
        b"\xc4\x65\x36\x01",
        b"\x7f" * 300,
    )
    made = [body(text.encode(errors="replace")) for text in TEXTS]
    made += [body(n=n) for n in numbers]
    made += [body(amount=amount) for amount in amounts]
    made += [body(x=b"\x04" + b"\x02" * depth + b"\x00") for depth in (0, 1, 50, 97, 98, 99, 100, 101, 5_000)]
    made += [body(x=b"\x02" + _long(count) + b"\x00") for count in (0, 1, 1_000, 900_000, 1_000_001, 2**40)]
    made += [body(x=b"\x02" + _long(-count) + _long(0) + b"\x00") for count in (1, 1_000, 900_000, 1_000_001)]
    made += [body(x=b"\x06" + _long(2) + b"\x02k\x02v\x02k\x00\x00"), body(x=b"\x06" + _long(1) + b"\x02\xff\x00\x00")]
    return made


def _long(number: int) -> bytes:
    """Returns a number as Avro writes it."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "n", "type": "int"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {
            "name": "x",
            "type": [
                "null",
                {"type": "array", "items": "null"},
                {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]},
                {"type": "map", "values": "bytes"},
            ],
        },
    ],
}


FLAT_AVRO = AVRO | {"fields": AVRO["fields"][:3]}  # decodes by columns


def flat_avro_records(schema_id: int) -> list[Record]:
    """Returns the bytes of `avro_records` without their last field, as records of the flat schema."""
    head = b"\x00" + schema_id.to_bytes(4, "big")
    return [(key, body[:-1], headers) for key, body, headers in avro_records(schema_id) if body and body[:5] == head]


def schemas() -> list[str]:
    """Returns at least a hundred texts that a registry may give as a schema, each of them odd or invalid."""
    types: list[Any] = [
        "int", "nothing", "", None, 1, [], {}, [[]], ["null", "null"], ["int", "int"], {"type": None}, {"type": []},
        {"type": "array"}, {"type": "map"}, {"type": "fixed"}, {"type": "enum"}, {"type": "record"}, {"type": "error"},
        {"type": "fixed", "name": "f", "size": -1}, {"type": "fixed", "name": "f", "size": 2**70},
        {"type": "enum", "name": "e", "symbols": []}, {"type": "enum", "name": "e", "symbols": ["a", "a"]},
        {"type": "array", "items": "R"}, {"type": "map", "values": "R"}, "R", ["null", "R"], {"type": "R"},
        {"type": "bytes", "logicalType": "decimal"}, {"type": "bytes", "logicalType": "decimal", "precision": -1},
        {"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 10**9},
        {"type": "bytes", "logicalType": "decimal", "precision": "x"}, {"type": "string", "logicalType": "uuid"},
        {"type": "int", "logicalType": "nothing"}, {"type": "record", "name": "R", "fields": []},
    ]  # fmt: skip
    made = [json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": type_}]}) for type_ in types]
    made += [json.dumps(type_) for type_ in types]
    made += [
        json.dumps({"type": "record", "name": "R", "fields": [{"name": name, "type": "int"}]}) for name in TEXTS[:28]
    ]
    made += ["", "{", "null", "[" * 100_000, '{"type":' * 50_000, '"\\ud800"', "\0", "{}" * 10]
    for depth in (50, 100, 400, 2_000, 50_000):
        made.append('{"type":"array","items":' * depth + '"R"' + "}" * depth)
    return made


# JSON Schemas that a registry may give, each with a record that one of them must not stop the others with.
CONTRACTS: dict[str, tuple[Any, Any]] = {
    "a pattern that backtracks": ({"pattern": "^(a+)+$"}, "a" * 50_000 + "!"),
    "a name's pattern that backtracks":
        ({"patternProperties": {"^(a|a)*$": True}, "additionalProperties": False}, {"a" * 50_000 + "!": 1}),
    "a lookahead": ({"pattern": "^(?=.*x)"}, "x"),
    "a back reference": ({"pattern": "(a)\\1"}, "aa"),
    "a schema that leads to itself": ({"$ref": "#"}, {}),
    "a schema that leads to itself twice": ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, {}),
    "a dialect within a schema":
        ({"$defs": {"x": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}},
          "$ref": "#/$defs/x"}, "a" * 50_000 + "!"),
    "a lookahead of a dialect within a schema":
        ({"$defs": {"x": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(?=.*x)"}},
          "$ref": "#/$defs/x"}, "x"),
    "many unique items": ({"uniqueItems": True}, [{"a": n} for n in range(20_000)] + [{"a": 1}]),
    "a number without an end": ({"multipleOf": 7}, b"1e999999999999999"),
    "many values of an enum":
        ({"$schema": "http://json-schema.org/draft-04/schema#", "enum": [{"a": n} for n in range(20_000)]}, 1),
    "many names that are required":
        ({"$schema": "http://json-schema.org/draft-04/schema#", "required": [f"a{n}" for n in range(20_000)]}, {}),
    "many values of an enum for many items":
        ({"items": {"enum": [*({"a": n} for n in range(20_000)), 1]}}, [1] * 100_000),
    "many properties for many items":
        ({"items": {"properties": {f"a{n}": {} for n in range(20_000)}}}, [{}] * 100_000),
    "many patterns for many names":
        ({"items": {"patternProperties": {f"^{n}$": False for n in range(100)}}}, [{"a": 1}] * 100_000),
    "many patterns for many names that are additional":
        ({"items": {"patternProperties": {f"^{n}$": True for n in range(100)}, "additionalProperties": {}}},
         [{"a": 1}] * 100_000),
    "a pattern that is written out for many items": ({"items": {"pattern": "a{1000}|b{1000}|c"}}, ["c"] * 200_000),
    "half a surrogate pair": ({"pattern": "a"}, b'"\\ud800"'),
    "a reference to what is no schema": ({"$ref": "#/x", "x": [1]}, {}),
}  # fmt: skip

# What a decoder of one's own may hand to `Delete` as the key of a whole number `id`. None of them names a row.
DELETE_KEYS: tuple[Any, ...] = (
    None, 7, "id", b"id", (), [], [("id", 1)], {"id"}, {}, {"ID": 1}, {"id ": 1}, {"id\0": 1}, {("id",): 1}, {None: 1}, {0: 1},
    {"id": 1, "n": 1}, {"id": 1, "\x1b[2J": 1}, {"x" * 10_000: 1}, {"id": None}, {"id": "1"}, {"id": True}, {"id": 1.0},
    {"id": float("nan")}, {"id": 2**31}, {"id": -(2**70)}, {"id": b"1"}, {"id": {}}, {"id": [1]}, {"id": {"id": 1}},
)  # fmt: skip

OPTIONS = {
    **dict.fromkeys(
        ("plugin.library.paths", "ssl.engine.location", "ssl.providers", "oauthbearer_token_refresh_cb"), "/opt/x.so"
    ),
    **dict.fromkeys(("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url"), "http://127.0.0.1/"),
    **dict.fromkeys(("interceptor.classes", "key.deserializer", "value.deserializer", "metric.reporters"), "a.b.C"),
    **dict.fromkeys(
        ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class", "sasl.login.class"), "a.b.C"
    ),
    **dict.fromkeys(("ssl.engine.factory.class", "security.providers", "partition.assignment.strategy"), "a.b.C"),
    **dict.fromkeys(("bootstrap.servers", "group.id", "isolation.level", "auto.offset.reset"), "canary"),
    **dict.fromkeys(("enable.auto.commit", "check.crcs", "allow.auto.create.topics", "enable.partition.eof"), "false"),
    **dict.fromkeys(("debug", "log_level", "statistics.interval.ms", "error_cb", "", "a\0b", "\x1b[2J"), "all"),
    "builtin.features": "canary",
}
