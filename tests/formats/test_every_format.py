"""Tests what each format makes of a record: values, marks and reasons, as tasks and this process decode it."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import Append, Avro, Custom, Envelope, Json, Pipeline, Protobuf, Raw, Upsert
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.registry import registry as registry_of
from lockstep.engine.raw_schema import RAW_SCHEMA
from lockstep.formats import decoder_of
from support.fakes.registry import headed
from support.inputs import hostile
from support.inputs.protos import a_file, a_message, framed
from support.inputs.raw_records import raw_batch

AT = datetime(2026, 1, 1, tzinfo=UTC)
AROUND = {"_timestamp": AT, "_bytes": 1, "_partition": 3}


def decode(format_, *records: Any, envelope=None, target=None, headers=None, decode=None, registry=None):
    """Returns the decoded records. Each is given as a value, or as a key and a value."""
    keys, values = zip(*(record if isinstance(record, tuple) else (None, record) for record in records), strict=True)
    raw = raw_batch(values, keys).to_pydict()
    raw |= {name: [value] * len(records) for name, value in AROUND.items()} | {"_headers": [headers] * len(records)}
    batch = pa.RecordBatch.from_pydict(raw, schema=RAW_SCHEMA)
    pipeline = Pipeline("p", "t", format_, target or Append("public.p"), envelope=envelope)
    folder = PipelineFolder(pipeline, Path(), None, None, None, decode)
    (made,) = decoder_of(folder, registry, keeps_bytes=True)([batch])
    return made.drop_columns(["_key", "_value", "_headers", "_timestamp", "_offset", "_bytes"]).to_pylist()


def test_a_strict_schema_names_the_field_that_differs():
    strict = Json("id string, n int", strict=True)
    rows = decode(strict, b'{"n":1,"id":"a"}', b'{"id":"a"}', b'{"id":"a","n":1,"x":2}', b'{"id":"a","n":null}', b"[]")
    assert [row["_reason"] for row in rows] == [
        None,
        "column n: missing",
        "column x: not in the schema",
        None,
        "not a JSON object",
    ]
    assert [row["id"] for row in rows] == ["a", None, None, "a", None]
    odd, long = decode(strict, b'{"id":"a","n":1,"\\u0000\\n":2}', b'{"id":"a","n":1,"' + b"x" * 10**4 + b'":2}')
    assert odd["_reason"] == "column ??: not in the schema"
    assert len(long["_reason"]) < 200


def test_a_strict_schema_rejects_exactly_the_records_that_differ_from_it():
    names = st.sampled_from(["id", "n", "Id", "id ", "x", "é", "", '"'])
    objects = st.dictionaries(names, st.none() | st.just({"id": 1, "n": [2]}), max_size=4)
    whole = objects.map(lambda other: {"id": "a", "n": 1} | {k: v for k, v in other.items() if k not in {"id", "n"}})

    @settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(objects | whole | st.just({"n": 1, "id": "a"}), min_size=150, max_size=200))
    def exactly(records):
        records = [{k: ({"id": "a", "n": 1}.get(k, v) if v else v) for k, v in record.items()} for record in records]
        rows = decode(Json("id string, n int", strict=True), *[json.dumps(record).encode() for record in records])
        for record, row in zip(records, rows, strict=True):
            assert (row["_reason"] is None) == (record.keys() == {"id", "n"}), (record, row)

    exactly()


def test_columns_that_are_called_as_the_parsers_own_have_the_values_of_their_fields():
    names = ("_corrupt", "_text", "_parsed", "_gathered", "_body", "_plain_key", "_head_fault", "_plain", "more")
    json_ = Json(", ".join(f"{name} string" for name in names), key="_plain", rest="more")
    sent = {name: name.upper() for name in names[:-1]} | {"other": 1}
    upserted = Upsert("public.p", key=("_plain",))

    row, gone, bad = decode(json_, json.dumps(sent).encode(), (b"k", None), b"{", target=upserted)

    assert {name: row[name] for name in names} == {name: name.upper() for name in names[:-1]} | {"more": '{"other":1}'}
    assert (gone["_deleted"], gone["_plain"], gone["_reason"]) == (True, "k", None)
    assert bad["_reason"] == "not a JSON object"


def test_a_rest_keeps_what_the_schema_does_not_name():
    rest = Json("id string, extra string", rest="extra")
    rows = decode(
        rest, b'{"id":"a"}', b'{"id":"a","n": 1.10,"deep":{"x":[]},"extra":0}', b'{"x":"\\u0000"}', b"{", b"\xff", None
    )
    assert [row["extra"] for row in rows] == [None, '{"n":1.10,"deep":{"x":[]},"extra":0}', None, None, None, None]
    assert [row["_reason"] for row in rows] == [
        None,
        None,
        "column extra: holds \\u0000, which Postgres cannot store",
        "not a JSON object",
        "not valid UTF-8",
        "null value",
    ]


def test_raw_is_the_bytes_and_no_value_is_null():
    rows = decode(Raw("body"), b"\x00\xff", None, b"")
    assert [(row["body"], row["_reason"], row["_deleted"]) for row in rows] == [
        (b"\x00\xff", None, False),
        (None, None, False),
        (b"", None, False),
    ]


def test_the_envelope_gives_columns_to_every_format():
    headers = [("trace", b"abc"), ("odd", b"\xff"), ("nul", b"\x00")]
    text = json.dumps([{"key": k, "value": b64encode(v).decode()} for k, v in headers] + [{"key": "none"}])
    envelope = Envelope(key="k", timestamp="produced_at", headers="h", partition="part", offset="nr")
    good, none, bad, nul = decode(
        Raw(), (b"o1", b"v"), (None, b"v"), (b"\xff", b"v"), (b"\x00", b"v"), envelope=envelope, headers=text
    )
    assert (good["k"], good["produced_at"], good["part"], good["nr"]) == ("o1", AT, 3, 0)
    assert json.loads(good["h"]) == [
        {"key": "trace", "value": "abc"},
        {"key": "odd", "base64": "/w=="},
        {"key": "nul", "base64": "AA=="},
        {"key": "none"},
    ]
    assert (none["k"], none["_reason"]) == (None, None)
    assert bad["_reason"] == "column k: the key is not valid UTF-8"
    assert nul["_reason"].startswith("column k: holds \\u0000")
    assert {bad[name] for name in ("value", "k", "h", "part", "nr", "produced_at")} == {None}
    (exact,) = decode(Json("id string"), (b"\xff", b'{"id":"a"}'), envelope=Envelope(key="k binary"))
    assert (exact["k"], exact["id"], exact["_reason"]) == (b"\xff", "a", None)


def test_an_envelopes_key_may_be_what_the_target_needs():
    rows = decode(Raw(), (b"o1", b"v"), (None, b"v"), envelope=Envelope(key="k"), target=Upsert("public.p", key=("k",)))
    assert [row["_reason"] for row in rows] == [None, "column k: null, and the target's key or order needs it"]


def test_tombstones_of_avro_delete_by_a_key_of_either_kind(registry):
    text = registry.register("t-key", "long")
    format_ = Avro("id bigint, n int", key="id")
    rows = decode(
        format_,
        (b"17", None),
        (registry.encode(text, 18), None),
        (b"x", None),
        (b"\x00\x00\x00\x03\xe7x", None),
        (None, None),
        target=Upsert("public.p", key=("id",)),
        envelope=Envelope(key="k"),
        registry=registry_of(registry.url, {}, str),
    )
    assert [(row["_deleted"], row["id"]) for row in rows] == [(True, 17), (True, 18)] + [(True, None)] * 3
    assert [row["_reason"] for row in rows] == [None, None] + ["tombstone: its key is not a bigint"] * 3
    assert {row["k"] for row in rows} == {None}


def test_tombstones_of_protobuf_delete_by_a_key_of_either_kind(registry):
    key = registry.register_protobuf("t-key", a_file(a_message("K", "int64 id = 1")))
    rows = decode(
        Protobuf("id bigint, n int", key="id"),
        (b"17", None),
        (framed(key, b"\x08\x12"), None),
        (b"x", None),
        (b"\x00\x00\x00\x03\xe7x", None),
        (framed(key, b"\x0a\x00"), None),
        target=Upsert("public.p", key=("id",)),
        registry=registry_of(registry.url, {}, str),
    )
    assert [(row["_deleted"], row["id"]) for row in rows] == [(True, 17), (True, 18)] + [(True, None)] * 3
    assert [row["_reason"] for row in rows[:4]] == [None, None] + ["tombstone: its key is not a bigint"] * 2
    assert rows[4]["_reason"].startswith(f"does not decode by schema id {key}: field id has wire type 2")


@pytest.mark.long
def test_json_behind_a_head_is_read_as_plain_json_is_to_the_last_hostile_record(registry):
    schema_id = registry.register_json("t", {})
    values = [value for _, value, headers in hostile.records() if value is not None and not headers]
    columns = "id string, amount decimal(9,2), extra string"
    plain = decode(Json(columns, rest="extra"), *values)
    by_registry = decode(
        Json(columns, rest="extra", registry=True),
        *(headed(schema_id, value) for value in values),
        registry=registry_of(registry.url, {}, str),
    )
    heads = "begins with the head of a registry's schema, not with JSON: Json(..., registry=True) reads such records"
    told = {row["_reason"] for row in plain}
    assert heads in told
    assert len(told) > 8
    for value, row, other in zip(values, plain, by_registry, strict=True):
        if row["_reason"] != heads:
            assert row == other, value


def test_json_without_a_head_is_a_reject_and_tombstones_delete_by_a_key_of_either_kind(registry):
    key = registry.register_json("t-key", {"type": "integer"})
    value = registry.register_json("t-value", {})
    rows = decode(
        Json("id bigint, n int", key="id", registry=True),
        (b"17", None),
        (headed(key, 18), None),
        (headed(key, {"id": 19}), None),
        (headed(key, [1]), None),
        (headed(999, 1), None),
        (b"k", b'{"id":1}'),
        (b"k", headed(value, {"id": 20, "n": 1})),
        (b"k", headed(value, b'{"id":20}{}')),
        target=Upsert("public.p", key=("id",)),
        registry=registry_of(registry.url, {}, str),
    )
    assert [(row["_deleted"], row["id"]) for row in rows[:5]] == [(True, 17), (True, 18), (True, 19)] + [
        (True, None)
    ] * 2
    assert [row["_reason"] for row in rows[:5]] == [None] * 3 + ["tombstone: its key is not a bigint"] * 2
    assert rows[5]["_reason"] == "not Confluent's wire format: a zero byte, the schema's id, the record"
    assert (rows[6]["id"], rows[6]["n"], rows[6]["_reason"], rows[6]["_deleted"]) == (20, 1, None, False)
    assert rows[7]["_reason"] == "not one JSON object: something follows it"


@pytest.mark.parametrize(
    "format_",
    [Avro("id string"), Protobuf("id string"), Json("id string", registry=True)],
    ids=["avro", "protobuf", "json"],
)
def test_a_format_without_its_registry_is_refused_before_anything_is_read(format_):
    with pytest.raises(
        BadDefinition, match=f"its format is {type(format_).__name__}, and LOCKSTEP_REGISTRY is not set"
    ):
        decode(format_, b"")


def test_an_own_decoder_that_is_not_there_is_refused_before_anything_is_read():
    with pytest.raises(BadDefinition, match=r"p: decode\.py: missing; it holds decode\(key, value, headers\)"):
        decode(Custom("id string"), b"")
