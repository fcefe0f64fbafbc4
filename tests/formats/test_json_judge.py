"""Tests that every kind of bad record is a reject with a reason that names the column.

No value is rounded, changed or guessed.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lockstep.core.pipeline.definition import Append, Json, Pipeline, Upsert
from lockstep.formats.judged import RecordDecoder
from lockstep.formats.judges import judge_of
from support.inputs.raw_records import raw_batch

COLUMNS = (
    "id string, amount decimal(12,2), n int, big bigint, at timestamp, share double, yes boolean, day date, "
    "whole decimal(38,0), part decimal(38,38)"
)
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
    (b'{"z":' + b"[" * 2000 + b"]" * 2000 + b"}", "not a JSON object: nested deeper than 500"),
    (b'{"z":' + b"[" * 500 + b"]" * 500 + b"}", "not a JSON object: nested deeper than 500"),
    (b'{"z":' + b'{"a":' * 100_000, "not a JSON object: nested deeper than 500"),
    (b'{"id":"a\nb"}', "not a JSON object"),
    (b'\xef\xbb\xbf{"id":"x"}', "not a JSON object"),
    (b'\x00\x00\x00\x00\x07{"id":"x"}', "begins with the head of a registry's schema"),
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
    (b'{"amount":"1,50"}', "column amount: not a decimal(12,2)"),
    (b'{"amount":"1,234.50"}', "column amount: not a decimal(12,2)"),
    (b'{"amount":""}', "column amount: not a decimal(12,2)"),
    (b'{"amount":true}', "column amount: not a decimal(12,2)"),
    (b'{"amount":{"of":1}}', "column amount: not a decimal(12,2)"),
    ('{"amount":"\uff11\uff12"}'.encode(), "column amount: not a decimal(12,2)"),
    (b'{"amount":1.2300000000000000000000001}', "column amount: does not fit"),
    (b'{"amount":"1.2300000000000000000000001"}', "column amount: does not fit"),
    (b'{"amount":1.0000000000000000000001}', "column amount: does not fit"),
    (b'{"x":{"amount":1.0},"amount" : 1.0000000000000000000001}', "column amount: does not fit"),
    (b'{"amount":-1.0000000000000000000001,"x":"\\"amount\\":1.0"}', "column amount: does not fit"),
    (b'{"am\\u006funt":1.0000000000000000000001,"x":{"amount":1.0}}', "column amount: does not fit"),
    (b'{"amount":\t-1.0000000000000000000001}', "column amount: does not fit"),
    (b'{"amount":1e-400}', "column amount: does not fit"),
    (b'{"amount":1e1000000000}', "column amount: does not fit"),
    (b'{"amount":1e-1000000000}', "column amount: does not fit"),
    (b'{"amount":"1e1000000000"}', "column amount: does not fit"),
    (b'{"\\u0061mount":1e1000000000}', "column amount: does not fit"),
    (b'{"amount":1e99999999999999999999}', "column amount: does not fit"),
    (b'{"whole":1.4}', "column whole: does not fit"),
    (b'{"whole":"99999999999999999999999999999999999999.4"}', "column whole: does not fit"),
    (b'{"part":0.' + b"0" * 38 + b"1}", "column part: does not fit"),
    (b'{"day":"2026-05-01T23:59:00Z"}', "column day: not a date"),
    (b'{"day":"2026-05-01 or so"}', "column day: not a date"),
    (b'{"day":"2026-05"}', "column day: not a date"),
    (b'{"day":"2026-02-30"}', "column day: not a date"),
    (b'{"at":"12:00:00"}', "column at: not a timestamp"),
    (b'{"at":"T12:00:00Z"}', "column at: not a timestamp"),
    (b'{"at":"2026"}', "column at: not a timestamp"),
    (b'{"at":1700000000}', "column at: not a timestamp"),
    (b'{"at":"2026-05-01T24:00:00Z"}', "column at: not a timestamp"),
    (b'{"at":"2026-05-01T12:00:60Z"}', "column at: not a timestamp"),
    (b'{"at":"2026-05-01T12:00:00+19:00"}', "column at: not a timestamp"),
    (b'{"at":"2026-05-01T12:00:00 Moon/Sea"}', "column at: not a timestamp"),
    (b'{"at":"0001-01-01T00:00:00+01:00"}', "column at: outside the years"),
    (b'{"at":"2026-05-01T12:00:00.1234567Z"}', "column at: has digits below the microsecond"),
    (b'{"id":"a\\ud83d"}', "column id: holds half a surrogate pair"),
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
    (b'{"id":1.10}', {"id": "1.10"}),
    (b'{"id":"1.10"}', {"id": "1.10"}),
    (b'{"id":1e400}', {"id": "1e400"}),
    (b'{"id":{"p": 0.1234567890123456789012345}}', {"id": '{"p":0.1234567890123456789012345}'}),
    (b'{"id":[ 1.10, "a \\u00e9 \\"b", 1e400 ]}', {"id": '[1.10,"a é \\"b",1e400]'}),
    (b'{"id":"Infinity"}', {"id": "Infinity"}),
    (b'{"id":"\\ud83d\\ude00?"}', {"id": "😀?"}),
    (b'{"amount":1.23000000000000000000000}', {"amount": Decimal("1.23")}),
    (b'{"amount":12345678.5,"id":"4f5e-1234"}', {"amount": Decimal("12345678.50"), "id": "4f5e-1234"}),
    (b'{"amount":0.00,"id":"4f5e-1234"}', {"amount": Decimal("0.00"), "id": "4f5e-1234"}),
    (b'{"amount":150e-2}', {"amount": Decimal("1.50")}),
    (b'{"whole":99999999999999999999999999999999999999}', {"whole": Decimal("9" * 38)}),
    (b'{"whole":-1.0}', {"whole": Decimal(-1)}),
    (b'{"part":0.' + b"9" * 38 + b"}", {"part": Decimal("0." + "9" * 38)}),
    (b'{"day":"2026-05-01"}', {"day": date(2026, 5, 1)}),
    (b'{"day":"2026-5-1"}', {"day": date(2026, 5, 1)}),
    (b'{"at":"2026-05-01"}', {"at": datetime(2026, 5, 1, tzinfo=UTC)}),
    (b'{"at":"2026-5-1 7:5"}', {"at": datetime(2026, 5, 1, 7, 5, tzinfo=UTC)}),
    (b'{"at":"2026-05-01T12:00:00.5 Europe/Berlin"}', {"at": datetime(2026, 5, 1, 10, 0, 0, 500_000, UTC)}),
    (b'{"at":"2026-05-01 12:00:00 UTC"}', {"at": datetime(2026, 5, 1, 12, tzinfo=UTC)}),
    (b'{"at":"2026-05-01T12:00:00-0530"}', {"at": datetime(2026, 5, 1, 17, 30, tzinfo=UTC)}),
    (b'{"id":-0}', {"id": "-0"}),
    (b'{"id":true}', {"id": "true"}),
    (b'{"id":"a","id":"b"}', {"id": "b"}),
    (b'{"yes":true,"share":-0.5}', {"yes": True, "share": -0.5}),
    (b'{"share":0.1,"n":0}', {"share": 0.1, "n": 0}),
    (b'{"z":' + b"[" * 499 + b"]" * 499 + b"}", {}),
    (b'{"id":"[[[","z":"' + b"{" * 5000 + b'"}', {"id": "[[["}),
    (b'{"z":1' + b"0" * 5000 + b',"' + b"n" * 60_000 + b'":1}', {}),
    (b'{"at":"2026-05-01T12:00:00.123456000Z"}', {"at": datetime(2026, 5, 1, 12, 0, 0, 123456, UTC)}),
]


def decode(pipeline: Pipeline, *records: tuple[bytes | None, bytes | None]) -> list[dict]:
    """Returns what the judge makes of records, each (key, value). Nothing is decoded by columns."""
    judge = judge_of(pipeline, None, None)
    names = [column.name for column in pipeline.format.columns]
    outcomes = [judge(key, value, None) for key, value in records]
    return [
        {"_reason": outcome.reason, "_deleted": outcome.deleted} | {n: outcome.values.get(n) for n in names}
        for outcome in outcomes
    ]


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


KEYS = {
    "decimal(12,2)": ([b"1.23", b"1.2300", b"1E+2", b"-7"], [b"1.239", b"1.2390e0", b"1e-3", b"1,5", b"1e1000000000"]),
    "date": ([b"2026-05-01"], [b"2026-05-01T23:00", b"2026-05-01 x", b"2026"]),
    "timestamp": ([b"2026-05-01T12:00:00.123456Z"], [b"2026-05-01T12:00:00.1234567Z", b"12:00:00"]),
    "double": ([b"0.1", b"1e3"], [b"1e400", b"NaN"]),
}


@pytest.mark.parametrize("type_", KEYS)
def test_a_tombstones_key_is_its_value_to_the_last_digit_or_no_value(type_):
    good, bad = KEYS[type_]
    keyed = Pipeline("p", "t", Json(f"id {type_}, n int", key="id"), Upsert("public.p", key=("id",)))
    rows = decode(keyed, *[(key, None) for key in [*good, *bad]])
    assert [row["_reason"] for row in rows] == [None] * len(good) + [f"tombstone: its key is not a {type_}"] * len(bad)
    assert [row["id"] is None for row in rows] == [False] * len(good) + [True] * len(bad)


def test_a_record_without_the_targets_key_is_rejected():
    (batch,) = RecordDecoder(UPSERT, None, None, keeps_bytes=False)([raw_batch([b'{"n":1}'])])
    assert batch.column("_reason").to_pylist() == ["column id: null, and the target's key or order needs it"]
