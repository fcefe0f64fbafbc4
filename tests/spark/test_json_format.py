"""Tests that every kind of bad record is a reject with a reason that names the column.

No value is rounded, changed or guessed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from lockstep.core.pipeline.definition import Append, Json, Pipeline, Upsert
from lockstep.engine.spark.session import session
from lockstep.formats import decoded

COLUMNS = "id string, amount decimal(12,2), n int, big bigint, at timestamp, share double, yes boolean"
APPEND = Pipeline("p", "t", Json(COLUMNS), Append("public.p"))
UPSERT = Pipeline("p", "t", Json("id string, n int", key="id"), Upsert("public.p", key=("id",)))
BY_NUMBER = Pipeline("p", "t", Json("id string, n int", key="n"), Upsert("public.p", key=("n",)))

REJECTED = [
    (b"", "not a JSON object"),
    (b"  \n ", "not a JSON object"),
    (b"{", "not a JSON object"),
    (b'{"id":"x"', "not a JSON object"),
    (b"null", "not a JSON object"),
    (b"3", "not a JSON object"),
    (b'"text"', "not a JSON object"),
    (b"[]", "not a JSON object"),
    (b'[{"id":"x"}]', "not a JSON object"),
    (b"{'id':'x'}", "not a JSON object"),
    (b'{"id":"x",}', "not a JSON object"),
    (b'{"share":NaN}', "not a JSON object"),
    (b'{"z":' + b"[" * 2000 + b"]" * 2000 + b"}", "not a JSON object"),
    (b'{"id":"x"} trailing', "something follows it"),
    (b'{"id":"x"}{"id":"y"}', "something follows it"),
    (b'{"id":"x"},{"id":"y"}', "something follows it"),
    (b'{"id":"x"}] [{"id":"y"}', "something follows it"),
    (b'{"id":"x"}, "own"] [{"id":"y"}', "something follows it"),
    (b'\xff\xfe{"id":"x"}', "not valid UTF-8"),
    (b'{"id":"\xc3("}', "not valid UTF-8"),
    (b'{"id":"a\\u0000b"}', "column id: holds \\u0000"),
    (b'{"amount":"abc"}', "column amount: not a decimal(12,2)"),
    (b'{"amount":"NaN"}', "column amount: not a decimal(12,2)"),
    (b'{"amount":"1.234"}', "column amount: does not fit"),
    (b'{"amount":12345678901.5}', "column amount: does not fit"),
    (b'{"amount":1' + b"0" * 50 + b"}", "column amount"),
    (b'{"n":3.5}', "column n: not a int"),
    (b'{"n":"3"}', "column n: not a int"),
    (b'{"n":2147483648}', "column n: not a int"),
    (b'{"big":9223372036854775808}', "column big: not a bigint"),
    (b'{"yes":"true"}', "column yes: not a boolean"),
    (b'{"at":"yesterday"}', "column at: not a timestamp"),
    (b'{"at":"+10000-01-01T00:00:00Z"}', "column at: outside the years"),
    (b'{"share":1e400}', "column share: not a finite number"),
    (b'{"share":"NaN"}', "column share: not a double"),
    (None, "null value"),
]
TAKEN = [
    (b'{"id":"x","amount":"12.30"}', {"id": "x", "amount": Decimal("12.30")}),
    (b'{"amount":9999999999.99}', {"amount": Decimal("9999999999.99")}),
    (b'{"amount":1e2}', {"amount": Decimal("100.00")}),
    (b'{"n":-2147483648,"big":9223372036854775807}', {"n": -(2**31), "big": 2**63 - 1}),
    (b' {"id":"x"} \r\n', {"id": "x"}),
    (b'{"id":"}{"}', {"id": "}{"}),
    (b'{"id":"x","deep":{"a":{"b":1}}}', {"id": "x"}),
    (b'{"id":"\xc3\xa9 \xf0\x9f\x98\x80"}', {"id": "é 😀"}),
    (b'{"id":"\'; drop table orders; --\\t\\\\N"}', {"id": "'; drop table orders; --\t\\N"}),
    (b'{"at":"2026-05-01T12:00:00.123456+02:00"}', {"at": datetime(2026, 5, 1, 10, 0, 0, 123456, UTC)}),
    (b'{"at":"0001-01-01T00:00:00Z"}', {"at": datetime(1, 1, 1, tzinfo=UTC)}),
    (b"{}", {}),
    (b'{"id":null,"unknown":1}', {}),
    (b'{"id":{"name":"b","of":[1,2]}}', {"id": '{"name":"b","of":[1,2]}'}),
    (b'{"id":[{"a":1},null]}', {"id": '[{"a":1},null]'}),
]


def decode(pipeline: Pipeline, *records: tuple[bytes | None, bytes | None]) -> list[dict]:
    rows = [(*record, 1) for record in records]
    frame = session().createDataFrame(rows, "_key binary, _value binary, _bytes int").coalesce(1)
    table = decoded(frame, pipeline).toArrow()
    return table.drop_columns(["_key", "_value", "_bytes"]).to_pylist()


@pytest.fixture(scope="module")
def reasons():
    rows = decode(APPEND, *[(None, value) for value, _ in REJECTED])
    return {value: row for (value, _), row in zip(REJECTED, rows, strict=True)}


@pytest.fixture(scope="module")
def taken():
    rows = decode(APPEND, *[(None, value) for value, _ in TAKEN])
    return {value: row for (value, _), row in zip(TAKEN, rows, strict=True)}


@pytest.mark.parametrize(("value", "reason"), REJECTED, ids=[repr((v or b"")[:40]) for v, _ in REJECTED])
def test_a_bad_record_is_rejected_with_its_reason(reasons, value, reason):
    row = reasons[value]
    assert reason in (row["_reason"] or "accepted"), row
    assert {row[column.name] for column in APPEND.format.columns} == {None}


@pytest.mark.parametrize(("value", "columns"), TAKEN, ids=[repr(v[:40]) for v, _ in TAKEN])
def test_a_good_record_is_taken_to_the_digit(taken, value, columns):
    row = taken[value]
    assert row["_reason"] is None
    assert {name: row[name] for name in columns} == columns
    assert {row[c.name] for c in APPEND.format.columns if c.name not in columns} <= {None}


def test_a_tombstone_deletes_by_the_kafka_key():
    good, none, garbled = decode(UPSERT, (b"o1", None), (None, None), (b"\xff", None))
    assert (good["_deleted"], good["_reason"], good["id"], good["n"]) == (True, None, "o1", None)
    assert "its key is not a string" in none["_reason"]
    assert "its key is not a string" in garbled["_reason"]


def test_a_tombstones_key_is_of_its_columns_type():
    good, bad = decode(BY_NUMBER, (b"17", None), (b"x", None))
    assert (good["n"], good["_reason"]) == (17, None)
    assert "its key is not a int" in bad["_reason"]


def test_a_record_without_the_targets_key_is_rejected():
    (row,) = decode(UPSERT, (b"o1", b'{"n":1}'))
    assert "column id: null" in row["_reason"]
