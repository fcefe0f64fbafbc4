"""Tests change records in Avro, as Connect's converter writes them: the same rows as from JSON."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from lockstep import Avro, Debezium
from lockstep.core.pipeline.limits import RecordLimits
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro.schemas import Schemas
from lockstep.formats.avro.writers import Writers
from lockstep.formats.debezium.decoder import ChangeDecoder
from lockstep.formats.debezium.documents import AvroDocuments
from lockstep.formats.rows import RecordOutcome
from support.fakes.registry import a_record, a_registry

PLACEHOLDER = "__debezium_unavailable_value"
ID = {"name": "id", "type": "long"}
NAME = {"name": "name", "type": ["null", "string"], "default": None}


@pytest.fixture
def registry():
    with a_registry() as made:
        yield made


def optional(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None}


def named(type_: str, semantic: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "connect.version": 1, "connect.name": semantic, **more}


def envelope(*fields: dict[str, Any]) -> dict[str, Any]:
    row = {"type": "record", "name": "Value", "fields": list(fields), "connect.name": "shop.public.orders.Value"}
    source = {
        "type": "record",
        "name": "Source",
        "namespace": "io.debezium",
        "fields": [{"name": "lsn", "type": "long"}],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.orders",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
        ],
        "connect.name": "shop.public.orders.Envelope",
    }


def plain(schema: Any) -> Any:
    """Returns the schema without logical types, so that a value is written as Connect writes it."""
    if isinstance(schema, dict):
        return {name: plain(each) for name, each in schema.items() if name != "logicalType"}
    return [plain(each) for each in schema] if isinstance(schema, list) else schema


def encoded(registry, subject: str, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(plain(schema)), value)
    return b"\0" + registry.register(subject, schema).to_bytes(4, "big") + out.getvalue()


class Judge:
    """A judge of Avro records of one table."""

    def __init__(self, registry, schema: str, subject: str | None = None, **more: Any) -> None:
        known = Schemas(registry_of(registry.url, {"max.retries": 0, "timeout": 5}, str))
        documents = AvroDocuments(Writers(known, RecordLimits()), subject)
        format_ = Debezium(schema, wire=Avro(subject=subject), **more)
        self._registry = registry
        self._judge = ChangeDecoder("shop", format_, documents.of_value, documents.of_key)

    def __call__(self, value: bytes | None, key: bytes | None = None) -> RecordOutcome:
        return self._judge(key, value, None)

    def change(self, fields: tuple[dict[str, Any], ...], op: str, after: Any, before: Any = None) -> RecordOutcome:
        value = {"op": op, "before": before, "after": after, "source": {"lsn": 5}}
        return self(encoded(self._registry, "orders-value", envelope(*fields), value))


def test_a_change_is_a_row_or_a_deletion(registry):
    judge = Judge(registry, "id bigint, name string, more string")
    assert judge.change((ID, NAME), "c", {"id": 1, "name": "a"}).values == {"id": 1, "name": "a", "more": None}
    assert judge.change((ID, NAME), "u", {"id": 1, "name": PLACEHOLDER}).values == {
        "id": 1,
        "name": None,
        "more": None,
        "_unavailable": "name",
    }
    assert judge.change((ID, NAME), "d", None, {"id": 1, "name": None}) == RecordOutcome({"id": 1}, deleted=True)
    assert judge.change((ID, NAME), "t", None).refusal is not None


@pytest.mark.parametrize(
    ("schema", "value", "is_"),
    [
        (a_record(("id", "long")), {"id": 7}, 7),
        ("long", 7, 7),
    ],
)
def test_a_tombstone_deletes_by_an_avro_key(registry, schema, value, is_):
    key = encoded(registry, "orders-key", schema, value)
    assert Judge(registry, "id bigint, name string")(None, key) == RecordOutcome({"id": is_}, deleted=True)


def test_a_key_may_be_json_or_text_beside_avro_values(registry):
    judge = Judge(registry, "id bigint, name string")
    assert judge(None, b'{"id": 7}').values == judge(None, b"7").values == {"id": 7}


def test_a_key_whose_schema_nobody_knows_leaves_the_row_before(registry):
    judge = Judge(registry, "id bigint, name string", key=("name",))
    unknown = b"\0" + (999).to_bytes(4, "big") + b"\x02"
    value = {"op": "d", "before": {"id": 1, "name": "x"}, "after": None, "source": {"lsn": 5}}
    record = encoded(registry, "orders-value", envelope(ID, NAME), value)
    assert judge(record, unknown) == RecordOutcome({"name": "x"}, deleted=True)
    assert "neither its key nor its row says name" in str(judge(None, unknown).reason)


SCALED = {"scale": 2, "precision": 10, "connect.parameters": {"scale": "2"}}
TIME, CONNECT, DATA = "io.debezium.time.", "org.apache.kafka.connect.data.", "io.debezium.data."
VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": f"{DATA}VariableScaleDecimal",
}


@pytest.mark.parametrize(
    ("column", "type_", "value", "is_"),
    [
        ("date", named("int", f"{TIME}Date"), 1, date(1970, 1, 2)),
        ("date", named("int", f"{CONNECT}Date", logicalType="date"), 1, date(1970, 1, 2)),
        ("timestamp", named("long", f"{TIME}Timestamp"), 5, datetime(1970, 1, 1, 0, 0, 0, 5_000, UTC)),
        ("timestamp", named("long", f"{TIME}MicroTimestamp"), 5, datetime(1970, 1, 1, 0, 0, 0, 5, UTC)),
        (
            "timestamp",
            named("long", f"{CONNECT}Timestamp", logicalType="timestamp-millis"),
            5,
            datetime(1970, 1, 1, 0, 0, 0, 5_000, UTC),
        ),
        (
            "timestamp",
            named("string", f"{TIME}ZonedTimestamp"),
            "2026-05-01T12:00:00Z",
            datetime(2026, 5, 1, 12, 0, 0, 0, UTC),
        ),
        ("string", named("int", f"{CONNECT}Time", logicalType="time-millis"), 86_399_500, "23:59:59.5"),
        ("string", named("long", f"{TIME}MicroTime"), 86_400_000_000, "24:00:00"),
        (
            "decimal(10,2)",
            named("bytes", f"{CONNECT}Decimal", logicalType="decimal", **SCALED),
            b"\x04\xd2",
            Decimal("12.34"),
        ),
        ("decimal(10,2)", VARIABLE, {"scale": 1, "value": b"\x7b"}, Decimal("12.30")),
        ("binary", "bytes", b"\x00\xff", b"\x00\xff"),
        ("double", "double", 0.1, 0.1),
        ("float", "double", 0.5, 0.5),
        ("float", "float", 0.5, 0.5),
        ("boolean", "boolean", True, True),
        ("smallint", {"type": "int", "connect.type": "int16"}, 5, 5),
        ("string", named("string", f"{DATA}Json"), '{"a": 1}', '{"a": 1}'),
        ("string", {"type": "array", "items": ["null", "string"]}, ["a", None], '["a",null]'),
        ("string", {"type": "map", "values": "bytes"}, {"k": b"\x01"}, '{"k":"AQ=="}'),
        ("bigint", {"type": "long", "logicalType": "timestamp-micros"}, 5, None),
        ("timestamp", {"type": "long", "logicalType": "timestamp-micros"}, 5, datetime(1970, 1, 1, 0, 0, 0, 5, UTC)),
    ],
)
def test_a_value_is_what_connects_names_in_the_schema_say(registry, column, type_, value, is_):
    outcome = Judge(registry, f"id bigint, v {column}").change((ID, optional("v", type_)), "c", {"id": 1, "v": value})
    if is_ is None:
        assert outcome.reason == "column v: io.debezium.time.MicroTimestamp does not become a bigint"
    else:
        assert outcome.values == {"id": 1, "v": is_}


@pytest.mark.parametrize(
    ("column", "type_", "value", "reason"),
    [
        ("timestamp", named("long", f"{TIME}NanoTimestamp"), 1, "column v: has digits beyond the microsecond"),
        ("timestamp", named("long", f"{TIME}MicroTimestamp"), 2**63 - 1, "column v: is infinite, or outside"),
        ("double", "double", float("nan"), "column v: is no finite number"),
        ("float", "double", 1234567.891, "column v: does not fit float"),
        ("float", "double", 1e-60, "column v: does not fit float"),
        ("float", "long", 5, "column v: int64 does not become a float"),
        ("double", "long", 2**53 + 1, "column v: does not fit double"),
        ("string", {"type": "map", "values": "double"}, {"k": float("inf")}, "column v: "),
        ("string", ["int", "string"], "x", "column v: its schema is of no type of Connect: 'union'"),
        (
            "decimal(3,2)",
            named("bytes", f"{CONNECT}Decimal", logicalType="decimal", **SCALED),
            b"\x04\xd2",
            "column v: does not fit",
        ),
    ],
)
def test_what_would_lose_a_digit_is_a_reject(registry, column, type_, value, reason):
    types = type_ if isinstance(type_, list) else [type_]
    field = {"name": "v", "type": ["null", *types], "default": None}
    outcome = Judge(registry, f"id bigint, v {column}").change((ID, field), "c", {"id": 1, "v": value})
    assert str(outcome.reason).startswith(reason)


@pytest.mark.parametrize(
    ("value", "type_", "column"),
    [
        (PLACEHOLDER.encode(), "bytes", "binary"),
        ([PLACEHOLDER], {"type": "array", "items": "string"}, "string"),
        ([PLACEHOLDER.encode()], {"type": "array", "items": "bytes"}, "string"),
        (list(PLACEHOLDER.encode()), {"type": "array", "items": "int"}, "string"),
        ({PLACEHOLDER: PLACEHOLDER}, {"type": "map", "values": "string"}, "string"),
        (f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}', named("string", f"{DATA}Json"), "string"),
    ],
)
def test_an_unavailable_value_is_known_in_every_type(registry, value, type_, column):
    judge = Judge(registry, f"id bigint, v {column}")
    outcome = judge.change((ID, optional("v", type_)), "u", {"id": 1, "v": value})
    assert outcome.values == {"id": 1, "v": None, "_unavailable": "v"}


def test_rows_without_an_envelope_are_told_by_what_is_added_to_them(registry):
    judge = Judge(registry, "id bigint, name string")
    flat = {"type": "record", "name": "Value", "fields": [ID, NAME, {"name": "__deleted", "type": ["null", "string"]}]}
    row = encoded(registry, "orders-value", flat, {"id": 1, "name": "a", "__deleted": "false"})
    assert judge(row).values == {"id": 1, "name": "a"}
    row = encoded(registry, "orders-value", flat, {"id": 1, "name": None, "__deleted": "true"})
    assert judge(row) == RecordOutcome({"id": 1}, deleted=True)


@pytest.mark.parametrize(
    ("value", "type_", "column"),
    [
        ("\ufffdA", "string", "string"),
        (b"\xffA", "bytes", "binary"),
        ([-1, 65], {"type": "array", "items": "int"}, "string"),
    ],
)
def test_a_placeholder_in_hexadecimal_is_known_in_every_type(registry, value, type_, column):
    judge = Judge(registry, f"id bigint, v {column}", placeholder="hex:ff41")
    outcome = judge.change((ID, optional("v", type_)), "u", {"id": 1, "v": value})
    assert outcome.values == {"id": 1, "v": None, "_unavailable": "v"}


def test_a_row_without_an_envelope_may_have_columns_that_are_called_like_parts_of_one(registry):
    judge = Judge(registry, "id bigint, op string, source string, after string")
    after = {"type": "record", "name": "After", "fields": [ID]}
    columns = [{"name": "op", "type": "string"}, {"name": "source", "type": "string"}, {"name": "after", "type": after}]
    flat = {"type": "record", "name": "Value", "fields": [ID, *columns, {"name": "__deleted", "type": "string"}]}
    row = {"id": 5, "op": "d", "source": "web", "after": {"id": 6}, "__deleted": "false"}
    assert judge(encoded(registry, "orders-value", flat, row)).values == {
        "id": 5,
        "op": "d",
        "source": "web",
        "after": '{"id":6}',
    }


def test_bytes_that_are_no_record_of_a_known_schema_are_rejects(registry):
    judge = Judge(registry, "id bigint, name string", subject="orders-value")
    value = {"op": "c", "before": None, "after": {"id": 1, "name": "a"}, "source": {"lsn": 5}}
    good = encoded(registry, "orders-value", envelope(ID, NAME), value)
    other = encoded(registry, "else", envelope(ID), value | {"after": {"id": 1}})
    number = encoded(registry, "orders-value", "long", 5)
    for record, reason in (
        (b"", "not Confluent's wire format"),
        (b'{"op": "c"}', "not Confluent's wire format"),
        (good[:-1], "does not decode by schema id 1"),
        (good + b"x", "does not decode by schema id 1: bytes follow the record"),
        (b"\0" + (999).to_bytes(4, "big") + good[5:], "schema id 999 is not in the registry"),
        (other, "schema id 2 is not one of subject orders-value"),
        (number, "no change record: not a JSON object"),
    ):
        assert reason in str(judge(record).reason)
    assert judge(good).values == {"id": 1, "name": "a"}
