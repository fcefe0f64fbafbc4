"""Tests what becomes of Debezium's change records: rows, deletions, nothing, or rejects with their reasons."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep import Debezium
from lockstep.formats.debezium.change import JsonDocuments, json_document
from lockstep.formats.debezium.decoder import ChangeDecoder
from lockstep.formats.rows import RecordOutcome
from support.inputs.change_records import SOURCE, change, decoded, field, of_field, struct, with_schema


@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_a_row_is_what_stands_after_the_change(op):
    before = None if op != "u" else {"id": 1, "name": "old"}
    record = change(op, before, {"id": 1, "name": "new", "unknown": 5})
    assert decoded(record).values == {"id": 1, "name": "new"}
    fields = (field("id", "int64"), field("name", "string"), field("unknown", "int32"))
    assert decoded(with_schema(record, *fields)).values == {"id": 1, "name": "new"}
    assert decoded({"schema": None, "payload": record}).values == {"id": 1, "name": "new"}


@pytest.mark.parametrize(
    ("key", "before", "gone"),
    [
        ({"id": 7}, {"id": 7, "name": None}, 7),
        ({"schema": struct(field("id", "int64")), "payload": {"id": 7}}, None, 7),
        ({"schema": {"type": "int64", "optional": False}, "payload": 7}, None, 7),
        (7, None, 7),
        (b"7", None, 7),
        (None, {"id": 8, "name": "x"}, 8),
        (b"Struct{id=9}", {"id": 8}, 8),
        ({"other": 5}, {"id": 8}, 8),
        ({"id": None}, {"id": 8}, 8),
    ],
)
def test_a_deletion_is_by_the_kafka_key_else_by_the_row_before(key, before, gone):
    assert decoded(change("d", before), key) == RecordOutcome({"id": gone}, deleted=True)


@pytest.mark.parametrize("value", [None, b"null", {"schema": None, "payload": None}])
def test_a_tombstone_deletes_again(value):
    assert decoded(value, {"id": 7}) == RecordOutcome({"id": 7}, deleted=True)


def test_a_key_of_several_columns_deletes_by_all_of_them():
    two: dict[str, Any] = {"schema": "a string, b int, n int", "key": ("a", "b")}
    assert decoded(None, {"b": 2, "a": "x"}, **two).values == {"a": "x", "b": 2}
    assert "neither its key nor its row says a, b" in decoded(None, {"a": "x"}, **two).reason
    assert "neither its key nor its row says a, b" in decoded(None, b"x", **two).reason


@pytest.mark.parametrize(
    ("key", "name"), [(b"abc", "abc"), (b'"abc"', "abc"), (b"12", "12"), ({"name": "q"}, "q"), (b"true", "true")]
)
def test_a_key_of_text_may_come_without_json(key, name):
    assert decoded(None, key, key=("name",)).values == {"name": name}


def test_the_text_of_a_struct_is_no_key():
    assert decoded(None, b"Struct{name=x}", key=("name",)).reason == "deletion: neither its key nor its row says name"


def test_a_message_of_the_source_is_filtered():
    record = {"op": "m", "ts_ms": 1, "source": SOURCE, "message": {"prefix": "a", "content": "Yg=="}}
    assert decoded(record) == RecordOutcome(filtered=True)


def test_a_truncation_is_refused_and_never_a_reject():
    outcome = decoded(change("t"))
    assert outcome.refusal is not None
    assert outcome.refusal == (
        "shop: the source's table was truncated, and rows stay here: after the skip, run, empty the target, and take a "
        "snapshot (docs/formats.md)"
    )
    assert (outcome.reason, outcome.deleted, outcome.filtered) == (None, False, False)


def test_rows_without_an_envelope_are_told_by_what_is_added_to_them():
    assert decoded({"id": 1, "name": "x", "__deleted": "false"}).values == {"id": 1, "name": "x"}
    assert decoded({"id": 1, "name": "x", "__op": "r"}).values == {"id": 1, "name": "x"}
    assert decoded({"id": 1, "name": "x", "__deleted": True}) == RecordOutcome({"id": 1}, deleted=True)
    assert decoded({"id": 1, "name": None, "__deleted": "true", "__op": "d"}, {"id": 1}).deleted
    assert decoded({"id": 1, "__op": "d"}) == RecordOutcome({"id": 1}, deleted=True)
    flat = struct(field("id", "int64"), field("name", "string"), field("__deleted", "string"))
    record = {"schema": flat, "payload": {"id": 1, "name": "x", "__deleted": "false"}}
    assert decoded(record).values == {"id": 1, "name": "x"}


def test_a_row_may_have_columns_that_are_called_like_parts_of_an_envelope():
    columns = "id bigint, op string, payload string"
    record = {"id": 1, "op": "x", "payload": "p", "__op": "c"}
    assert decoded(record, schema=columns).values == {"id": 1, "op": "x", "payload": "p"}
    record = change("c", after={"schema": "s", "payload": "p"})
    assert decoded(record, schema="schema string, payload string", key=("schema",)).values == {
        "schema": "s",
        "payload": "p",
    }


@pytest.mark.parametrize(
    ("semantic", "type_", "column", "value", "is_"),
    [
        ("io.debezium.time.Date", "int32", "date", -1, date(1969, 12, 31)),
        ("org.apache.kafka.connect.data.Date", "int32", "date", 19_000, date(2022, 1, 8)),
        ("io.debezium.time.IsoDate", "string", "date", "2026-05-01Z", date(2026, 5, 1)),
        ("io.debezium.time.Timestamp", "int64", "timestamp", 1, datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)),
        (
            "org.apache.kafka.connect.data.Timestamp",
            "int64",
            "timestamp",
            -1,
            datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC),
        ),
        ("io.debezium.time.MicroTimestamp", "int64", "timestamp", 1, datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        ("io.debezium.time.NanoTimestamp", "int64", "timestamp", 5_000, datetime(1970, 1, 1, 0, 0, 0, 5, UTC)),
        (
            "io.debezium.time.ZonedTimestamp",
            "string",
            "timestamp",
            "2026-05-01T12:00:00.5+02:00",
            datetime(2026, 5, 1, 10, 0, 0, 500_000, UTC),
        ),
        (
            "io.debezium.time.IsoTimestamp",
            "string",
            "timestamp",
            "2026-05-01T12:00:00.123456000Z",
            datetime(2026, 5, 1, 12, 0, 0, 123_456, UTC),
        ),
        ("io.debezium.time.Time", "int32", "string", 86_399_500, "23:59:59.5"),
        ("org.apache.kafka.connect.data.Time", "int32", "string", 0, "00:00:00"),
        ("io.debezium.time.MicroTime", "int64", "string", 86_400_000_000, "24:00:00"),
        ("io.debezium.time.MicroTime", "int64", "string", -3_020_399_000_001, "-838:59:59.000001"),
        ("io.debezium.time.NanoTime", "int64", "string", 1, "00:00:00.000000001"),
        ("io.debezium.time.ZonedTime", "string", "string", "10:00:00Z", "10:00:00Z"),
        ("io.debezium.time.Year", "int32", "int", 2026, 2026),
        ("io.debezium.time.MicroDuration", "int64", "bigint", 5, 5),
        ("io.debezium.data.Uuid", "string", "string", "8a3b", "8a3b"),
        ("io.debezium.data.Json", "string", "string", '{"a": 1.10}', '{"a": 1.10}'),
        ("io.debezium.data.Enum", "string", "string", "x", "x"),
        ("io.debezium.data.Bits", "bytes", "binary", "BQ==", b"\x05"),
        ("io.debezium.data.geometry.Point", "struct", "string", {"x": Decimal("1.50"), "y": 2}, '{"x":1.50,"y":2}'),
        (
            "io.debezium.data.VariableScaleDecimal",
            "struct",
            "decimal(6,2)",
            {"scale": 1, "value": "ew=="},
            Decimal("12.30"),
        ),
        (None, "boolean", "boolean", True, True),
        (None, "int16", "smallint", -5, -5),
        (None, "int32", "decimal(12,2)", 5, Decimal("5.00")),
        (None, "double", "double", 0.1, 0.1),
        (None, "float", "float", 2, 2.0),
        (None, "string", "string", "x", "x"),
        (None, "string", "decimal(6,2)", "12.3", Decimal("12.30")),
        (None, "bytes", "binary", "AAE=", b"\x00\x01"),
        (None, "array", "string", [1, "b", None], '[1,"b",null]'),
        (None, "map", "string", {"k": "v"}, '{"k":"v"}'),
        (None, "int64", "bigint", None, None),
    ],
)
def test_a_value_is_what_its_schema_says(semantic, type_, column, value, is_):
    if isinstance(value, dict):
        value = {name: float(each) if isinstance(each, Decimal) else each for name, each in value.items()}
        is_ = is_.replace("1.50", "1.5") if isinstance(is_, str) else is_
    assert of_field(value, column, type_, semantic).values == {"id": 1, "v": is_}


@pytest.mark.parametrize(
    ("scale", "unscaled", "column", "is_"),
    [
        (2, 1230, "decimal(6,2)", Decimal("12.30")),
        (2, -1, "decimal(6,2)", Decimal("-0.01")),
        (0, 10**37, "decimal(38,0)", Decimal(10**37)),
        (-2, 5, "decimal(6,2)", Decimal("500.00")),
        (0, 12, "bigint", 12),
        (1, 120, "int", 12),
    ],
)
def test_a_decimal_comes_in_bytes_to_the_digit(scale, unscaled, column, is_):
    data = unscaled.to_bytes(20, "big", signed=True)
    name, parameters = "org.apache.kafka.connect.data.Decimal", {"scale": str(scale)}
    outcome = of_field(b64encode(data).decode(), column, "bytes", name, parameters=parameters)
    assert outcome.values == {"id": 1, "v": is_}
    assert of_field(float(is_), column, "bytes", name, parameters=parameters).values == {"id": 1, "v": is_}


BASE64 = "org.apache.kafka.connect.data.Decimal"


@pytest.mark.parametrize(
    ("semantic", "type_", "column", "value", "reason"),
    [
        ("io.debezium.time.NanoTimestamp", "int64", "timestamp", 5_001, "column v: has digits beyond the microsecond"),
        (
            "io.debezium.time.ZonedTimestamp",
            "string",
            "timestamp",
            "2026-05-01T12:00:00.1234567Z",
            "column v: has digits beyond",
        ),
        (
            "io.debezium.time.ZonedTimestamp",
            "string",
            "timestamp",
            "infinity",
            "column v: is no ISO 8601 time with a zone",
        ),
        (
            "io.debezium.time.ZonedTimestamp",
            "string",
            "timestamp",
            "2026-05-01T12:00:00",
            "column v: is no ISO 8601 time with a zone",
        ),
        (
            "io.debezium.time.ZonedTimestamp",
            "string",
            "timestamp",
            "+12026-05-01T12:00:00Z",
            "column v: is no ISO 8601 time",
        ),
        (
            "io.debezium.time.ZonedTimestamp",
            "string",
            "timestamp",
            "2026-02-30T12:00:00Z",
            "column v: is no ISO 8601 time",
        ),
        (
            "io.debezium.time.Timestamp",
            "int64",
            "timestamp",
            9_223_372_036_825_200_000,
            "column v: is infinite, or outside",
        ),
        ("io.debezium.time.MicroTimestamp", "int64", "timestamp", -(2**63), "column v: is infinite, or outside"),
        ("io.debezium.time.Date", "int32", "date", 2**31 - 1, "column v: is infinite, or outside the years 1 to 9999"),
        ("io.debezium.time.Date", "int32", "date", "2026-05-01", "column v: not a date"),
        (
            "io.debezium.time.Date",
            "int32",
            "timestamp",
            5,
            "column v: io.debezium.time.Date does not become a timestamp",
        ),
        (
            "io.debezium.time.Timestamp",
            "int64",
            "bigint",
            5,
            "column v: io.debezium.time.Timestamp does not become a bigint",
        ),
        ("io.debezium.time.Timestamp", "int64", "timestamp", True, "column v: not a timestamp"),
        (
            BASE64,
            "bytes",
            "decimal(6,2)",
            "ew==",
            "column v: is a decimal, and its schema names no scale as a whole number",
        ),
        (
            "io.debezium.data.VariableScaleDecimal",
            "struct",
            "decimal(6,2)",
            {"scale": 3, "value": "ew=="},
            "column v: does not fit decimal(6,2)",
        ),
        (
            "io.debezium.data.VariableScaleDecimal",
            "struct",
            "decimal(6,2)",
            {"scale": 3, "value": ""},
            "column v: is a decimal without a digit",
        ),
        ("io.debezium.data.VariableScaleDecimal", "struct", "decimal(6,2)", "ew==", "column v: not a decimal"),
        (
            "io.debezium.data.VariableScaleDecimal",
            "struct",
            "bigint",
            {"scale": 1, "value": "ew=="},
            "column v: not a bigint",
        ),
        (None, "string", "decimal(6,2)", "NaN", "column v: is no finite number"),
        (None, "string", "decimal(6,2)", "1_0", "column v: is no finite number"),
        (None, "double", "double", "NaN", "column v: is no finite number"),
        (None, "double", "bigint", 1.5, "column v: double does not become a bigint"),
        (None, "string", "bigint", "5", "column v: text does not become a bigint"),
        (None, "string", "binary", "ab", "column v: is text, base64 or hex: say which in units"),
        (None, "bytes", "binary", "ab!", "column v: is no base64"),
        (None, "bytes", "string", "YWI=", "column v: bytes does not become a string"),
        (None, "int64", "int", 2**31, "column v: does not fit int"),
        (None, "int64", "bigint", "x", "column v: not a bigint"),
        (None, "tuple", "bigint", 5, "column v: its schema is of no type of Connect: 'tuple'"),
        (None, "string", "string", "x\u0000", "column v: holds \\u0000"),
        (None, "string", "string", "\ud800", "column v: holds half a surrogate pair"),
        (None, "map", "string", {"k": "\u0000"}, "column v: holds \\u0000"),
    ],
)
def test_what_would_lose_a_digit_or_bend_a_value_is_a_reject_that_names_it(semantic, type_, column, value, reason):
    outcome = of_field(value, column, type_, semantic)
    assert outcome.reason is not None
    assert outcome.reason.startswith(reason)
    assert outcome.values == {}


@pytest.mark.parametrize(
    ("column", "value", "unit", "is_"),
    [
        ("timestamp", 1_000, "millis", datetime(1970, 1, 1, 0, 0, 1, 0, UTC)),
        ("timestamp", 1_000, "micros", datetime(1970, 1, 1, 0, 0, 0, 1_000, UTC)),
        ("timestamp", 1_000, "nanos", datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        ("timestamp", "2026-05-01T12:00:00Z", None, datetime(2026, 5, 1, 12, 0, 0, 0, UTC)),
        ("date", 1, "days", date(1970, 1, 2)),
        ("date", "2026-05-01", None, date(2026, 5, 1)),
        ("decimal(6,2)", "12.3", "text", Decimal("12.30")),
        ("binary", "AAE=", "base64", b"\x00\x01"),
        ("binary", "0001", "hex", b"\x00\x01"),
        ("string", {"a": [1]}, None, '{"a":[1]}'),
        ("double", 1, None, 1.0),
        ("bigint", 2**53 + 1, None, 2**53 + 1),
    ],
)
def test_without_a_schema_the_column_and_its_unit_say_what_a_value_is(column, value, unit, is_):
    assert of_field(value, column, units={"v": unit} if unit else None).values == {"id": 1, "v": is_}


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("timestamp", 1_000, "column v: is a number without a schema: say its unit in units"),
        ("date", 1_000, "column v: is a number without a schema: say its unit in units"),
        ("decimal(6,2)", "1234", "column v: is text without a schema, digits or base64"),
        ("binary", "abcd", "column v: is text, base64 or hex: say which in units"),
        ("string", 5, "column v: not a string"),
        ("bigint", 1.5, "column v: not a bigint"),
        ("boolean", "true", "column v: text does not become a boolean"),
    ],
)
def test_without_a_schema_nothing_is_guessed(column, value, reason):
    assert of_field(value, column).reason.startswith(reason)


def test_a_number_without_a_schema_says_no_unit():
    outcome = of_field(1_700_000_000_000, "timestamp")
    assert outcome.reason == "column v: is a number without a schema: say its unit in units, or send schemas"


def test_nanoseconds_are_never_cut():
    outcome = of_field(1_700_000_000_000_000_001, "timestamp", "int64", "io.debezium.time.NanoTimestamp")
    assert outcome.reason == "column v: has digits beyond the microsecond, which a timestamp would lose"


def test_numbers_without_a_schema_keep_every_digit():
    text = b'{"op": "c", "source": {}, "after": {"id": 1, "v": 1234567890123456789012345678.90}}'
    assert decoded(text, schema="id bigint, v decimal(38,2)").values["v"] == Decimal("1234567890123456789012345678.90")
    text = b'{"op": "c", "source": {}, "after": {"id": 1, "v": {"n": 1.10}}}'
    assert decoded(text, schema="id bigint, v string").values["v"] == '{"n":1.10}'


HOSTILE: list[tuple[Any, str]] = [
    (b"", "not JSON"),
    (b"{", "not JSON"),
    (b"\xff\xfe", "not valid UTF-8"),
    (b"[1]", "no change record: not a JSON object"),
    (b"5", "no change record: not a JSON object"),
    (b"{}", "no change record: it has neither an envelope nor __deleted nor __op"),
    (b'{"id": 1, "name": "x"}', "no change record: it has neither an envelope nor __deleted nor __op"),
    ({"ts_ms": 5}, "no change record: it is a heartbeat"),
    (
        {"ddl": "drop table x", "databaseName": "d", "source": {}},
        "no change record: it tells of a change of the schema",
    ),
    (change("x"), "op 'x': not one of c, r, u, d, t, m"),
    (change(5), "op '5': not one of"),  # type: ignore[arg-type]
    (change("c"), "op c: after is null, and it is the row"),
    (change("u", after=[1]), "op u: after is no object"),
    (change("d", before="x"), "op d: before is no object"),
    (change("d"), "deletion: neither its key nor its row says id"),
    ({"__deleted": "perhaps", "id": 1}, "__deleted: neither true nor false"),
    ({"__deleted": 1, "id": 1}, "__deleted: neither true nor false"),
    ({"__op": None, "id": 1}, "no change record: __deleted and __op are null"),
    ({"__op": "c", "__deleted": "true", "id": 1}, "__op c and __deleted true: one says that the row is gone"),
    (b'{"op": "c", "op": "d", "after": {"id": 1}}', "a field stands there twice"),
    (b'{"op": "c", "after": {"id": NaN}}', "NaN is no number of JSON"),
    (b'{"op": "c", "after": {"id": ' + b"9" * 5_000 + b"}}", "a number has more than 1000 digits"),
    (b'{"op": "c", "after": {"id": 1, "name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "is nested too deep"),
    (b'{"op": "c", "after": {"id": 1e999999999}}', "column id: not a bigint"),
    (b'{"op": "c", "after": {"id": 1e99999999999999999999}}', "not JSON"),
    ({"schema": {"type": "int32"}, "payload": change("c", after={"id": 1})}, "its schema is not Connect's"),
    (
        {"schema": struct(field("op", "string")), "payload": change("c", after={"id": 1})},
        "its schema is not Connect's: it has no field after",
    ),
    (
        {"schema": {"type": "struct", "fields": [5]}, "payload": change("c", after={"id": 1})},
        "its schema is not Connect's: a field without",
    ),
    (
        with_schema(change("c", after={"id": 1, "name": "x"}), field("id", "int64")),
        "column name: its schema is not Connect's",
    ),
    (with_schema(change("c", after={"id": 1}), field("id", ["int64"])), "column id: its schema is of no type"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("record", "reason"), HOSTILE)
def test_an_odd_record_is_a_reject_with_its_reason(record, reason):
    outcome = decoded(record)
    assert outcome.reason is not None
    assert outcome.reason.startswith(reason)
    assert (outcome.values, outcome.refusal) == ({}, None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(
    [
        "id",
        "v",
        "op",
        "before",
        "after",
        "source",
        "schema",
        "payload",
        "type",
        "fields",
        "field",
        "name",
        "parameters",
        "scale",
        "__op",
        "__deleted",
        "optional",
    ]
)
words = st.sampled_from(
    [
        "c",
        "u",
        "d",
        "r",
        "t",
        "m",
        "struct",
        "int64",
        "string",
        "bytes",
        "true",
        "id",
        "v",
        "after",
        "io.debezium.time.Date",
        "org.apache.kafka.connect.data.Decimal",
    ]
)
likely = st.recursive(
    json_values | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6),
    max_leaves=20,
)


@settings(max_examples=400, deadline=None)
@given(likely | st.binary(), likely | st.binary())
def test_no_record_whatever_it_holds_ends_the_decoder(value, key):
    columns = "id bigint, v decimal(6,2), at timestamp, day date, raw binary, text string, real double"
    outcome = decoded(value, key, schema=columns)
    said = [outcome.reason is not None, outcome.filtered, outcome.refusal is not None, bool(outcome.values)]
    assert sum(said) == 1
    assert not outcome.deleted or set(outcome.values) == {"id"}


SHARED = b'{"schema": {"type": "struct", "fields": [{"field": "payload", "type": "int64"}]}, "payload": '


@pytest.mark.parametrize(
    "data",
    [
        SHARED + b'{"payload": 1}}',
        SHARED + b"null}",
        pytest.param(SHARED.replace(b"int64", b"int32") + b'{"a": 1}}', id="another schema"),
        SHARED + b'1, "payload": 2}',
        SHARED + b'{"a": 1}, "more": 1}',
        SHARED + b'{"a": 1}',
        SHARED + b'{"a": "\xff"}}',
        SHARED + b'{"a": 1, "a": 2}}',
        SHARED + b'{"a": NaN}}',
        SHARED + b"{} }\n",
        b'{"payload": {"a": 1}, "schema": {"type": "struct", "fields": []}}',
        b'{"schema": null, "payload": {"a": 1}}',
        b'{"schema": {"payload": 1, "type": "x"}, "payload": {"a": 1}}',
        b'{"schema": {"type": ",\\"payload\\":"}, "payload": [1]}',
        b'{"a": 1}',
    ],
)
def test_a_record_that_begins_like_the_one_before_is_read_as_if_it_were_alone(data):
    def said(read) -> Any:
        try:
            return read(data)
        except ValueError as error:
            return str(error)

    documents = JsonDocuments()
    assert documents(SHARED + b'{"a": 1}}') == documents(SHARED + b'{"a": 1}}')
    assert said(documents) == said(json_document)
    assert said(documents) == said(json_document)


def test_a_text_that_its_schema_does_not_allow_is_a_reject():
    time = {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTime"}
    row = {"field": "after", "type": "struct", "fields": [{"field": "id", "type": "int64"}, time]}
    schema = {"type": "struct", "fields": [row]}
    for value, reason in ((86_399_000_000, None), ("23:59:59", "column at: not a string")):
        payload = {"op": "c", "after": {"id": 1, "at": value}}
        judge = ChangeDecoder("shop", Debezium("id bigint, at string"))
        assert judge(None, json.dumps({"schema": schema, "payload": payload}).encode(), None).reason == reason
