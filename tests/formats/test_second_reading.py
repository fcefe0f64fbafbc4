"""Tests that a record that is read again has the values that it had, and that what cannot be read again is left open."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.core.pipeline.definition import (
    Append,
    Avro,
    Custom,
    Debezium,
    Envelope,
    Json,
    Pipeline,
    Protobuf,
    Raw,
    Upsert,
)
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.registry import registry as registry_of
from lockstep.formats.envelope import headers_text
from lockstep.formats.json import columns as json_columns
from lockstep.formats.second_reading import (
    DELETED,
    FILTERED,
    REJECTED,
    ROW,
    UNKNOWN,
    RereadRecord,
    SecondReading,
    undecodable,
)
from support.fakes.registry import a_record, a_registry, headed
from support.inputs.nasty_json import COLUMNS, EACH, NASTY, values
from support.inputs.protos import a_file, a_message

SCHEMA = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())


def folder(format_, target=None, decode=None, **more: Any) -> PipelineFolder:
    pipeline = Pipeline("p", "t", format_, target or Append("public.p"), **more)
    return PipelineFolder(pipeline, Path(), None, None, None, decode)


def record(value, offset: int = 0, key=b"k", headers=None, stamp: int = 0) -> RereadRecord:
    return RereadRecord(3, offset, key, value, headers, stamp)


def read(of: PipelineFolder, *given: RereadRecord) -> list[dict]:
    return SecondReading(of)(list(given)).to_pylist()


def one(of: PipelineFolder, *given: Any, **more: Any) -> dict:
    (row,) = read(of, record(*given, **more))
    return row


def compared(given_values) -> None:
    """Checks that records have the same values by columns and record by record."""
    given = [record(value, place) for place, value in enumerate(given_values)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_columns, "columnar", lambda _: None)
        plain = SecondReading(folder(Json(SCHEMA)))
    both = sorted(read(folder(Json(SCHEMA)), *given), key=lambda row: row["_offset"])
    assert plain(given).to_pylist() == both
    assert {row["Became"] for row in both} <= {ROW, REJECTED}
    assert {row["Unsure"] for row in both} == {None}


def test_odd_records_are_read_alike_by_columns_and_one_by_one():
    compared([*NASTY, *EACH])


@settings(max_examples=100, deadline=None)
@given(values)
def test_any_record_is_read_alike_by_columns_and_one_by_one(value):
    compared([value])


@pytest.mark.parametrize(
    ("value", "became"),
    [
        (b'{"id": "a", "n": 1}', ROW),
        (b'{"id": 5}', ROW),
        (b'{"id": {"a": 1}}', ROW),
        (b'{"n": 1.0}', REJECTED),
        (b'{"n": "1"}', REJECTED),
        (b'{"id": "a", "id": "b"}', ROW),
        (b'[{"id": "a"}]', REJECTED),
        (b"NaN", REJECTED),
        (b'{"id": "a\\u0000"}', REJECTED),
        (b"\xff", REJECTED),
        (None, REJECTED),
        (b'{"' + b"x" * 50_001 + b'": 1, "id": "a"}', ROW),
        (b'{"id": "a", "z": ' + b"9" * 1_001 + b"}", ROW),
        (b'{"id": "' + b"x" * 20_000_001 + b'"}', ROW),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_record_is_a_row_or_a_reject_and_no_column_is_left_open(value, became):
    row = one(folder(Json("id string, n int")), value)
    assert (row["Became"], row["Unsure"]) == (became, None)


ORDER = {"type": "object", "properties": {"id": {"type": "string"}}}
BODIES = [
    b"",
    b"\x02a\x02",
    b'{"id":"a"}',
    b'{"id":{"a":1}}',
    b"\x0a\x01a\x10\x01",
    b"\x00\x0a\x01a",
    b"[" * 600,
    b"\xff" * 20,
    b"null",
]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(BODIES) | st.binary(max_size=12), min_size=1, max_size=20))
def test_no_column_of_a_registered_format_is_left_open_whatever_the_bytes(bodies):
    with a_registry() as registry:
        ids = (
            registry.register("a", a_record(("id", "string"), ("n", ["null", "int"]))),
            registry.register_protobuf("p", a_file(a_message("M", "string id = 1", "int32 n = 2"))),
            registry.register_json("j", ORDER),
        )
        reached = registry_of(registry.url, {"max.retries": 0, "timeout": 5}, str)
        formats = Avro("id string, n int"), Protobuf("id string, n int"), Json("id string, n int", registry=True)
        for schema_id, format_ in zip(ids, formats, strict=True):
            given = [record(headed(schema_id, body), place) for place, body in enumerate(bodies)]
            rows = SecondReading(folder(format_), reached)(given).to_pylist()
            assert {row["Became"] for row in rows} <= {ROW, REJECTED}
            assert {row["Unsure"] for row in rows} == {None}


def test_a_value_that_a_change_record_lacks_is_left_open_and_no_other():
    debezium = folder(Debezium("id int, doc string, n int", key=("id",)), Upsert("public.p", ("id",)))
    after = {"id": 1, "doc": "__debezium_unavailable_value", "n": 2}
    change = {"before": None, "after": after, "op": "u", "source": {"lsn": 5, "snapshot": "false"}}
    row = one(debezium, json.dumps(change).encode(), key=b'{"id":1}')
    assert (row["Became"], row["Unsure"], row["n"]) == (UNKNOWN, ",doc,", 2)


def test_a_strict_schema_rejects_other_fields_and_a_rest_gathers_them():
    strict, rest = folder(Json("id string", strict=True)), folder(Json("id string", rest="others"))
    assert one(strict, b'{"id": "a"}')["Became"] == ROW
    assert one(strict, b'{"id": "a", "n": 1}')["Became"] == REJECTED
    assert one(strict, b"{}")["Became"] == REJECTED
    assert one(rest, b'{"id": "a", "n": 1.50, "m": [1]}')["others"] == '{"n":1.50,"m":[1]}'
    assert one(rest, b'{"id": "a"}')["others"] is None


def test_the_envelopes_columns_are_those_around_the_value():
    envelope = Envelope(key="k", timestamp="at", headers="h", partition="p", offset="o")
    row = one(
        folder(Json("id string"), envelope=envelope),
        b'{"id": "a"}',
        7,
        b"key",
        [("a", b"\x01\xc3\xa4"), ("b", None)],
        1_500,
    )
    assert (row["k"], row["at"], row["p"], row["o"]) == ("key", datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC), 3, 7)
    assert json.loads(row["h"]) == [{"key": "a", "value": "\x01ä"}, {"key": "b"}]
    assert one(folder(Json("id string"), envelope=envelope), b'{"id": "a"}', key=b"\xff")["Became"] == REJECTED
    assert one(folder(Json("id string"), envelope=envelope), b'{"id": "a"}', stamp=-1)["at"] is None


def test_headers_are_written_as_json():
    assert headers_text(None) is None
    assert headers_text([("a", b"\x1f\\u00ab")]) == '[{"key":"a","value":"\\u001F\\\\u00ab"}]'
    assert headers_text([("a", b"\xff")]) == '[{"key":"a","base64":"/w=="}]'


def test_a_record_without_what_its_target_needs_is_a_reject():
    keyed = folder(Json("id string, n int"), Upsert("public.p", ("id",)))
    assert one(keyed, b'{"n": 1}')["Became"] == REJECTED
    assert one(keyed, b'{"id": null, "n": 1, "m": "\xff"}')["Became"] == REJECTED


@pytest.mark.parametrize(
    ("type_", "key", "became"),
    [
        ("string", b"a", DELETED),
        ("string", b"\xff", REJECTED),
        ("string", None, REJECTED),
        ("int", b"-12", DELETED),
        ("int", b" 12", REJECTED),
        ("int", b"99999999999", REJECTED),
        ("date", b"2026-01-01", DELETED),
    ],
)
def test_a_tombstone_deletes_where_its_key_is_surely_the_columns(type_, key, became):
    keyed = folder(Json(f"id {type_}", key="id"), Upsert("public.p", ("id",)))
    assert one(keyed, None, key=key)["Became"] == became


def test_raw_bytes_and_a_decoder_of_ones_own_are_read_again():
    assert one(folder(Raw()), b"\xff")["value"] == b"\xff"
    own = "def decode(key, value, headers):\n    if not value: return None\n    if value == b'x': raise ValueError('no')\n"
    own += "    return {'n': int(value), 'h': headers[0][1]}"
    custom = folder(Custom("n decimal(4,1), h binary"), decode=own)
    row = one(custom, b"5", headers=[("a", b"\x00")])
    assert (row["Became"], row["n"], row["h"]) == (ROW, Decimal("5.0"), b"\x00")
    assert one(custom, b"", headers=[])["Became"] == FILTERED
    assert one(custom, b"x")["Became"] == REJECTED
    assert one(custom, b"no number")["Became"] == REJECTED
    assert one(custom, b"5")["Became"] == UNKNOWN


def test_what_cannot_be_decoded_again_says_why():
    assert undecodable(folder(Json("id string")), None) is None
    assert (
        undecodable(PipelineFolder(folder(Json("id string")).pipeline, Path(), "x", None, None), None)
        == "transform.py makes the rows"
    )
