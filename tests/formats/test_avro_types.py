"""Tests that a column takes a writer's type only if it keeps each of its values.

Any other type stops the batch, with its name.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from fastavro import parse_schema
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.errors import BadData
from lockstep.core.pipeline.columns import Column
from lockstep.core.pipeline.definition import Append, Avro, Pipeline
from lockstep.formats.avro.decoder import Decoder
from support.fakes.registry import a_record, wire

STRING, INT, LONG = "string", "int", "long"
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
INNER = a_record(("q", INT), name="Inner")


def dec(precision: int, scale: int) -> dict:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


class Known:
    """Schemas that are known without a registry."""

    def __init__(self, *schemas: Any) -> None:
        self.schemas = schemas

    def writer(self, schema_id: int) -> tuple[str, dict[str, str]]:
        return json.dumps(self.schemas[schema_id - 1]), {}


def decode(writers, column_type: str, value):
    schema = a_record(("c", writers))
    format_ = Avro(f"c {column_type}")
    decoder = Decoder(Pipeline("p", "t", format_, Append("public.p")), format_, Known(schema))  # type: ignore[arg-type]
    return decoder(None, wire(1, parse_schema(schema), {"c": value}), None)


TAKEN = [
    (STRING, "string", "é", "é"),
    (["null", STRING], "string", None, None),
    ([STRING, "null"], "string", "x", "x"),
    (ENUM, "string", "B", "B"),
    ({"type": "string", "logicalType": "uuid"}, "string", "A" * 8, "A" * 8),
    ({"type": "string", "avro.java.string": "String"}, "string", "x", "x"),
    ("boolean", "boolean", True, True),
    (INT, "int", -(2**31), -(2**31)),
    (INT, "bigint", 7, 7),
    (INT, "double", 7, 7.0),
    (INT, "decimal(10,0)", 7, Decimal(7)),
    (INT, "decimal(12,2)", 2**31 - 1, Decimal("2147483647.00")),
    (LONG, "bigint", 2**63 - 1, 2**63 - 1),
    (LONG, "decimal(19,0)", 2**63 - 1, Decimal(2**63 - 1)),
    ([INT, LONG], "bigint", 2**40, 2**40),
    ("float", "float", 0.5, 0.5),
    ("float", "double", 0.5, 0.5),
    ("double", "double", 0.1, 0.1),
    ("bytes", "binary", b"\x00\xff", b"\x00\xff"),
    (FIXED, "binary", b"ab", b"ab"),
    (dec(10, 2), "decimal(12,2)", Decimal("1.50"), Decimal("1.50")),
    (dec(10, 2), "decimal(12,4)", Decimal("-1.5"), Decimal("-1.5000")),
    ({"type": "int", "logicalType": "date"}, "date", date(1, 1, 1), date(1, 1, 1)),
    (MILLIS, "timestamp", datetime(2026, 1, 1, 0, 0, 0, 1000, UTC), datetime(2026, 1, 1, 0, 0, 0, 1000, UTC)),
    (MICROS, "timestamp", datetime(9999, 12, 31, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)),
    (INNER, "string", {"q": 1}, '{"q":1}'),
    ({"type": "array", "items": "string"}, "string", ["a", "é"], '["a","é"]'),
    ({"type": "map", "values": dec(4, 2)}, "string", {"k": Decimal("1.20")}, '{"k":"1.20"}'),
    (["null", INNER], "string", None, None),
    ([STRING, INNER], "string", "x", '"x"'),
    ("null", "int", None, None),
]
REFUSED = [
    (LONG, "int"),
    (INT, "smallint"),
    (INT, "float"),
    (LONG, "double"),
    (LONG, "decimal(18,0)"),
    (INT, "decimal(10,1)"),
    (INT, "string"),
    (INT, "timestamp"),
    (INT, "boolean"),
    ("double", "float"),
    ("double", "decimal(12,2)"),
    ("double", "string"),
    ("boolean", "string"),
    ("boolean", "int"),
    (STRING, "int"),
    (STRING, "binary"),
    (STRING, "timestamp"),
    ("bytes", "string"),
    ("bytes", "decimal(12,2)"),
    (dec(10, 3), "decimal(12,2)"),
    (dec(11, 2), "decimal(12,4)"),
    (dec(4, 0), "bigint"),
    (dec(4, 0), "binary"),
    (dec(4, 2), "double"),
    (MILLIS, "bigint"),
    (MILLIS, "string"),
    (MILLIS, "date"),
    ({"type": "int", "logicalType": "date"}, "int"),
    ({"type": "int", "logicalType": "date"}, "timestamp"),
    ({"type": "long", "logicalType": "timestamp-nanos"}, "timestamp"),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp"),
    (["null", INT, STRING], "int"),
    (INNER, "int"),
]


@pytest.mark.parametrize(("writers", "column", "given_", "value"), TAKEN, ids=str)
def test_a_type_that_keeps_every_value_is_taken(writers, column, given_, value):
    outcome = decode(writers, column, given_)
    assert outcome.reason is None
    assert outcome.values == {"c": value}
    assert type(outcome.values["c"]) is type(value)


@pytest.mark.parametrize(("writers", "column"), REFUSED, ids=str)
def test_a_type_that_would_lose_or_bend_a_value_stops_the_batch_naming_both(writers, column):
    schema = a_record(("c", writers))
    format_ = Avro(f"c {column}")
    decoder = Decoder(Pipeline("p", "t", format_, Append("public.p")), format_, Known(schema))  # type: ignore[arg-type]
    with pytest.raises(BadData, match=r"column c is .*schema id 1 writes ") as caught:
        decoder(None, b"\x00\x00\x00\x00\x01\x00", None)
    assert f"column c is {column}, " in str(caught.value)


def test_the_words_for_both_types_are_those_of_their_languages():
    for writers, words in ((dec(9, 3), "decimal(9,3)"), (["null", "double"], "[null, double]"), (ENUM, "enum E")):
        with pytest.raises(BadData) as caught:
            decode(writers, "int", {"enum E": "A", "decimal(9,3)": Decimal(1)}.get(words))
        assert caught.value.message == (
            f"p: column c is int, and schema id 1 writes {words}, which would not keep every value"
        )


BENT = [
    (ENUM, "string", b"\x01", "symbol -1 of an enum of 2"),
    (["null", STRING], "string", b"\x01\x02x", "branch -1 of a union of 2"),
    ([INT, "null"], "int", b"\x03\x0e", "branch -2 of a union of 2"),
    ({"type": "array", "items": ["null", INT]}, "string", b"\x02\x01\x0a\x00", "branch -1 of a union of 2"),
    (LONG, "bigint", b"\xff" * 9 + b"\x03", "a number of more than 64 bits"),
    ("boolean", "boolean", b"\x02", "a boolean of 2"),
    ({"type": "int", "logicalType": "time-millis"}, "string", b"\x01", "-1 is no time of a day"),
    ({"type": "long", "logicalType": "time-micros"}, "string", b"\x01", "-1 is no time of a day"),
]


@pytest.mark.parametrize(("writers", "column", "body", "why"), BENT, ids=[why for *_, why in BENT])
def test_bytes_that_fastavro_bends_into_a_value_are_a_reject(writers, column, body, why):
    format_ = Avro(f"c {column}")
    pipeline = Pipeline("p", "t", format_, Append("public.p"))
    decoder = Decoder(pipeline, format_, Known(a_record(("c", writers))))  # type: ignore[arg-type]
    assert (
        decoder(None, b"\x00\x00\x00\x00\x01" + body, None).reason
        == f"does not decode by schema id 1: ValueError: {why}"
    )


def test_a_record_in_another_form_than_our_own_is_taken():
    """An array in blocks with their sizes, and a number in more bytes than it needs."""
    format_ = Avro("c string, n bigint")
    schema = a_record(("c", {"type": "array", "items": INT}), ("n", LONG))
    decoder = Decoder(Pipeline("p", "t", format_, Append("public.p")), format_, Known(schema))  # type: ignore[arg-type]
    outcome = decoder(None, b"\x00\x00\x00\x00\x01" + b"\x01\x02\x02\x02\x04\x00" + b"\x82\x00", None)
    assert outcome.values == {"c": "[1,2]", "n": 1}


def a_decimal(precision: int, scale: int):
    bound = 10**precision - 1
    return st.integers(-bound, bound).map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


MOMENTS = st.datetimes(timezones=st.just(UTC))
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
EACH = [
    ("string", STRING, TEXT),
    ("boolean", "boolean", st.booleans()),
    ("int", INT, st.integers(-(2**31), 2**31 - 1)),
    ("bigint", LONG, st.integers(-(2**63), 2**63 - 1)),
    ("float", "float", st.floats(width=32, allow_nan=False)),
    ("double", "double", st.floats(allow_nan=False)),
    ("date", {"type": "int", "logicalType": "date"}, st.dates()),
    ("timestamp", MICROS, MOMENTS),
    ("timestamp", MILLIS, MOMENTS.map(lambda at: at - timedelta(microseconds=at.microsecond % 1000))),
    ("binary", "bytes", st.binary()),
    ("decimal(38,10)", dec(38, 10), a_decimal(38, 10)),
    ("decimal(5,0)", dec(5, 0), a_decimal(5, 0)),
]


@pytest.mark.parametrize(("column", "writers", "values"), EACH, ids=[f"{c}-{i}" for i, (c, *_) in enumerate(EACH)])
def test_each_column_type_comes_back_as_it_was_written(column, writers, values):
    @given(values)
    def comes_back(value):
        outcome = decode(["null", writers], column, value)
        assert outcome == outcome._replace(values={"c": value}, reason=None, deleted=False, filtered=False)

    comes_back()


def test_every_column_type_but_smallint_is_among_them():
    kinds = {Column("c", column).type.partition("(")[0] for column, *_ in EACH}
    assert kinds == {"string", "boolean", "int", "bigint", "float", "double", "date", "timestamp", "binary", "decimal"}
