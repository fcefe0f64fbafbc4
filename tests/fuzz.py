"""Fuzzes the readers of hostile bytes and the writers of rows: `python tests/fuzz.py SECONDS [DSN [SEED]]`.

It is a separate process: a decoder that crashes ends it, and its caller sees that. It compares values.
"""

from __future__ import annotations

import base64
import io
import json
import math
import random
import sys
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg2
import pyarrow as pa
from fastavro import parse_schema, schemaless_writer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz_hostile import Watch, hostile, watched
from lockstep.core.pipeline.columns import Column
from lockstep.core.pipeline.definition import Append, Avro, Custom, Json, Pipeline, Protobuf, Upsert
from lockstep.engine.sinks.copy_binary import copy_binary
from lockstep.formats.avro.decoder import Decoder
from lockstep.formats.json.columns import columnar
from lockstep.formats.json.heads import HeadJudge
from lockstep.formats.json.judge import JsonJudge
from lockstep.formats.own_decoder import OwnDecoder
from lockstep.formats.protobuf.decoder import MessageDecoder
from lockstep.formats.rows import RecordOutcome, headers_json, headers_of
from lockstep.formats.values import arrow_type
from support.inputs.protos import a_file, a_message, classes, framed

EACH = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
ROUNDS_OF_HOSTILE = 20  # seeds of each round
HEAD = b"\x00\x00\x00\x00"
JSON = Json("id string, n int, big bigint, amount decimal(12,2), ratio double, ok boolean")
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
# A column's type → values that it holds. They come out of Postgres unchanged.
VALUES = {
    "string": TEXT,
    "binary": st.binary(),
    "boolean": st.booleans(),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
    "date": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "timestamp": MOMENTS,
    "decimal(38,9)": st.decimals(-(10**28), 10**28, allow_nan=False, places=9),
    "decimal(12,2)": st.decimals(-(10**9), 10**9, allow_nan=False, places=2),
}
WRITERS = {
    "string": ("string", TEXT),
    "int": ("int", VALUES["int"]),
    "bigint": ("long", VALUES["bigint"]),
    "double": ("double", VALUES["double"]),
    "boolean": ("boolean", st.booleans()),
    "binary": ("bytes", st.binary()),
    "decimal(12,2)": (
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        VALUES["decimal(12,2)"],
    ),
    "date": ({"type": "int", "logicalType": "date"}, VALUES["date"]),
}
NESTED = [
    {"type": "array", "items": "null"},
    {"type": "map", "values": ["null", "string"]},
    {"type": "record", "name": "N", "fields": [{"name": "x", "type": ["null", "N"]}]},
    {"type": "fixed", "name": "F", "size": 3},
    {"type": "enum", "name": "E", "symbols": ["a", "b"]},
]


# A column's type → the type of a Protobuf field that it takes, and its values.
MESSAGES = {
    "string": ("string", TEXT),
    "int": ("sint32", VALUES["int"]),
    "bigint": ("int64", VALUES["bigint"]),
    "double": ("double", VALUES["double"]),
    "boolean": ("bool", st.booleans()),
    "binary": ("bytes", st.binary()),
    "decimal(20,0)": ("uint64", st.integers(0, 2**64 - 1)),
}
DECIMALS = st.builds(lambda digits, places: Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), places)),
                     st.integers(-500, 500), st.integers(-4, 4))  # fmt: skip
NESTED_MESSAGES = ["repeated fixed32 n = 99", "map string string n = 99", ".shop.R n = 99", "bytes n = 99"]


class OneSchema:
    """A registry that knows one schema, whichever id is asked for."""

    def __init__(self, text: str) -> None:
        self._text = text

    def writer(self, _schema_id: int) -> tuple[str, dict[str, str]]:
        return self._text, {}


def same(one: Any, other: Any) -> bool:
    """Returns True if both are equal, to the type and the sign. A NaN equals a NaN."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return type(one) is type(other) and one == other


def spoiled(body: bytes, chance: random.Random) -> bytes:
    """Returns the bytes with some of them changed, left out or doubled."""
    out = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out) + 1)
        match chance.randrange(4):
            case 0:
                out[at : at + 1] = chance.randbytes(1)
            case 1:
                del out[at : at + chance.randint(1, 5)]
            case 2:
                out[at:at] = out[: chance.randint(1, 9)]
            case _:
                out[at:at] = chance.choice([b"\xff" * 9 + b"\x01", b"\x80" * 12, b"\x02" * 300, b"\x7f" * 40])
    return bytes(out)


@EACH
@given(st.data())
def avro_values(data: st.DataObject) -> None:
    """Checks that written values are read back.

    Spoiled bytes are a row that fits its columns, or a reject with a reason.
    """
    types = data.draw(st.lists(st.sampled_from(sorted(WRITERS)), min_size=1, max_size=4))
    nested = data.draw(st.sampled_from(NESTED))
    fields = [{"name": f"c{place}", "type": ["null", WRITERS[type_][0]]} for place, type_ in enumerate(types)]
    schema = {"type": "record", "name": "R", "fields": [*fields, {"name": "rest", "type": ["null", nested]}]}
    values = {f"c{place}": data.draw(st.none() | WRITERS[type_][1]) for place, type_ in enumerate(types)}
    format_ = Avro(", ".join(f"c{place} {type_}" for place, type_ in enumerate(types)), rest="more")
    decode = Decoder(Pipeline("p", "t", format_, Append("public.p")), format_, OneSchema(json.dumps(schema)))  # type: ignore[arg-type]
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(json.loads(json.dumps(schema))), values | {"rest": None})
    outcome = decode(None, HEAD + b"\x01" + out.getvalue(), None)
    assert outcome.reason is None, outcome.reason
    for name, value in values.items():
        assert same(outcome.values[name], value), (name, value, outcome.values[name])
    chance = random.Random(data.draw(st.integers()))  # noqa: S311 - spread, not secrecy
    for _ in range(20):
        fits(decode(None, HEAD + b"\x01" + spoiled(out.getvalue(), chance), None), format_.columns)


@EACH
@given(st.data())
def protobuf_values(data: st.DataObject) -> None:
    """Checks the same of Protobuf, whose parser would bend and skip what it does not know."""
    types = data.draw(st.lists(st.sampled_from(sorted(MESSAGES)), min_size=1, max_size=4))
    fields = [f"optional {MESSAGES[type_][0]} c{place} = {place + 1}" for place, type_ in enumerate(types)]
    file = a_file(a_message("R", *fields, data.draw(st.sampled_from(NESTED_MESSAGES))))
    values = {f"c{place}": data.draw(st.none() | MESSAGES[type_][1]) for place, type_ in enumerate(types)}
    format_ = Protobuf(", ".join(f"c{place} {type_}" for place, type_ in enumerate(types)), rest="more")
    registry = OneSchema(base64.b64encode(file.SerializeToString()).decode())
    decode = MessageDecoder(Pipeline("p", "t", format_, Append("public.p")), format_, registry)  # type: ignore[arg-type]
    made = classes(file)("shop.R", **{name: value for name, value in values.items() if value is not None})
    outcome = decode(None, framed(0, made), None)
    assert outcome.reason is None, outcome.reason
    for place, type_ in enumerate(types):
        value: Any = values[f"c{place}"]
        wanted = Decimal(value) if type_.startswith("decimal") and value is not None else value
        assert same(outcome.values[f"c{place}"], wanted), (value, outcome.values[f"c{place}"])
    chance = random.Random(data.draw(st.integers()))  # noqa: S311 - spread, not secrecy
    for _ in range(20):
        fits(decode(None, framed(0, spoiled(made.SerializeToString(), chance)), None), format_.columns)


@EACH
@given(st.data())
def json_contracts(data: st.DataObject) -> None:
    """Checks numbers and lists by a JSON Schema against fractions, and spoiled records, each a body or a reject."""
    divisor, low = data.draw(DECIMALS.filter(lambda number: number > 0)), data.draw(DECIMALS)
    values = data.draw(st.lists(DECIMALS | st.booleans() | st.none() | TEXT, max_size=5))
    schema = {"items": {"multipleOf": "DIVISOR", "minimum": "LOW"}, "uniqueItems": True}
    text = json.dumps(schema).replace('"DIVISOR"', str(divisor)).replace('"LOW"', str(low))
    items = [str(value) if isinstance(value, Decimal) else json.dumps(value) for value in values]
    body = f"[{', '.join(items)}]".encode()
    numbers = [Fraction(value) for value in values if isinstance(value, Decimal)]
    others = [(type(value), value) for value in values if not isinstance(value, Decimal)]
    good = all((number / Fraction(divisor)).denominator == 1 and number >= Fraction(low) for number in numbers)
    good = good and len(set(numbers)) == len(numbers) and len(set(others)) == len(others)
    format_ = Json("id string", registry=True, validate=True)
    take = HeadJudge(Pipeline("p", "t", format_, Append("public.p")), format_, OneSchema(text))  # type: ignore[arg-type]
    told = take(None, HEAD + b"\x01" + body, None).reason
    assert (told is None) == good, (text, body, told)
    chance = random.Random(data.draw(st.integers()))  # noqa: S311 - spread, not secrecy
    for _ in range(20):
        outcome = take(None, HEAD + b"\x01" + spoiled(body, chance), None)
        assert bool(outcome.values) != bool((outcome.reason or "").strip()), outcome


@EACH
@given(st.data())
def own_deletions(data: st.DataObject) -> None:
    """Checks that a decoder's own deletion is of exactly the key that it names, or a reject."""
    types = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    names = [f"k{place}" for place, _ in enumerate(types)]
    format_ = Custom(", ".join(f"{name} {type_}" for name, type_ in zip(names, types, strict=True)) + ", n int")
    source = "from lockstep import Delete\ndef decode(key, value, headers):\n    return Delete(key)\n"
    decode = OwnDecoder(format_, source, (Upsert("public.p", key=tuple(names)),))
    right = {name: data.draw(VALUES[type_]) for name, type_ in zip(names, types, strict=True)}
    outcome = decode(right, None, None)  # type: ignore[arg-type]
    assert outcome.deleted, outcome.reason
    assert all(same(outcome.values[name], value) for name, value in right.items()), (right, outcome.values)
    wrong = data.draw(st.none() | st.dictionaries(st.sampled_from([*names, "n", "x"]), st.one_of(*VALUES.values())))
    outcome = decode(wrong, None, None)  # type: ignore[arg-type]
    assert outcome.deleted != bool(outcome.reason), outcome
    assert not outcome.deleted or outcome.values.keys() == {*names} == (wrong or {}).keys()
    fits(outcome, format_.columns)


def fits(outcome: RecordOutcome, columns: tuple[Column, ...]) -> None:
    """Checks that a record is a row that fits its columns, or a reject with a reason."""
    assert outcome.reason is None or outcome.reason.strip()
    for column in columns:
        pa.array([outcome.values.get(column.name)], arrow_type(column))


@EACH
@given(
    st.dictionaries(
        st.sampled_from(["id", "n", "big", "amount", "ratio", "ok", "x"]),
        st.none() | TEXT | st.integers() | st.floats() | st.booleans(),
    ),
    st.integers(),
)
def json_values(fields: dict[str, Any], seed: int) -> None:
    """Checks that what is decoded by columns is what the judge makes of it, and that the judge ends."""
    pipeline = Pipeline("p", "t", JSON, Append("public.p"))
    by_columns, judge = columnar(pipeline), JsonJudge(pipeline, JSON)
    chance, body = random.Random(seed), json.dumps(fields).encode()  # noqa: S311 - the same
    records = [body, *(spoiled(body, chance) for _ in range(20)), b"[" * chance.randint(1, 200_000), b'{"id":' * 5_000]
    places, columns = by_columns(pa.array(records, pa.binary()))
    for place, row in zip(places, columns.to_pylist(), strict=True):
        outcome = judge(None, records[place], None)
        assert outcome.reason is None, (records[place], outcome.reason)
        for name, value in row.items():
            assert same(value, outcome.values.get(name)), (records[place], name)
    for record in set(records) - {records[place] for place in places}:
        fits(judge(None, record, None), JSON.columns)


@EACH
@given(st.lists(st.tuples(TEXT, st.none() | st.binary())))
def headers(given_: list[tuple[str, bytes | None]]) -> None:
    """Checks that headers come back from the text that rejects keep."""
    assert headers_of(headers_json(given_)) == given_


def copied(dsn: str) -> None:
    """Checks that rows are the same after COPY, read by Postgres itself as text."""
    columns = [Column(f"c{place}", type_) for place, type_ in enumerate(VALUES)]
    declared = ", ".join(f"{column.name} {column.postgres_type}" for column in columns)
    conn = psycopg2.connect(dsn)
    with conn, conn.cursor() as cur:
        cur.execute("set timezone = 'UTC'")
        cur.execute("set extra_float_digits = 3")
        cur.execute(f"create temp table fuzzed (number serial, {declared})")

    @EACH
    @given(st.lists(st.tuples(*(st.none() | each for each in VALUES.values())), min_size=1, max_size=20))
    def values(rows: list[tuple]) -> None:
        arrays = [
            pa.array(cells, arrow_type(column)) for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
        with conn, conn.cursor() as cur:
            cur.execute("truncate fuzzed restart identity")
            for file in copy_binary(batch):
                cur.copy_expert(f"copy fuzzed ({', '.join(batch.schema.names)}) from stdin (format binary)", file)
            cur.execute(f"select {', '.join(batch.schema.names)} from fuzzed order by number")
            found = cur.fetchall()
        assert len(found) == len(rows)
        for out, row in zip(found, rows, strict=True):
            for read, value in zip(out, row, strict=True):
                plain = bytes(read) if isinstance(read, memoryview) else read
                assert same(plain, value), (plain, value)

    values()
    conn.close()


def main(seconds: float, dsn: str | None, first: int) -> int:
    """Runs rounds of every fuzzer until the time is over, at least one. Ends with the input that took too much."""
    watch = Watch()
    with watched(watch):
        return rounds_of(seconds, dsn, first, watch)


def rounds_of(seconds: float, dsn: str | None, first: int, watch: Watch) -> int:
    """Runs the rounds, and returns their number."""
    until, rounds = time.monotonic() + seconds, 0
    while not rounds or time.monotonic() < until:
        for number in range(ROUNDS_OF_HOSTILE):
            hostile(watch, first + rounds * ROUNDS_OF_HOSTILE + number)
        avro_values()
        protobuf_values()
        json_contracts()
        own_deletions()
        json_values()
        headers()
        if dsn:
            copied(dsn)
        rounds += 1
    return rounds


if __name__ == "__main__":
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns() % 2**31
    sys.stderr.write(f"seed {seed}\n")
    sys.stdout.write(f"{main(float(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None, seed)} rounds\n")
