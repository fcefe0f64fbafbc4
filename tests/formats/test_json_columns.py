"""Tests records by columns: which definitions allow it, and which records are left to the judge.

A bad record costs its neighbours little.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations

import pyarrow as pa
import pytest

from lockstep.core.pipeline.definition import Append, Json, Pipeline, Upsert
from lockstep.formats.json import columns as json_columns
from lockstep.formats.json.columns import FEW_RECORDS, RECORDS_PER_PARSE, SEARCHES, columnar

FORMAT = Json("id string, n int, amount decimal(12,2), at timestamp")
PIPELINE = Pipeline("p", "t", FORMAT, Append("public.p"))
TAKE = columnar(PIPELINE)


def record(n: int) -> bytes:
    return json.dumps({"id": f"r{n}", "n": n, "amount": n / 4, "at": "2026-05-01T12:00:00Z"}).encode()


def n_of(record: bytes) -> int | str | None:
    """Returns the field n of a record, or a text for what is not one record."""
    try:
        return json.loads(record).get("n")
    except json.JSONDecodeError:
        return "not one record"


def taken(records: list[bytes | None]) -> list[int]:
    places, columns = TAKE(pa.array(records, pa.binary()))
    assert [row["n"] for row in columns.to_pylist()] == [n_of(records[place]) for place in places]
    return places.tolist()


@pytest.mark.parametrize(
    ("format_", "value", "expected"),
    [
        (Json("id string", strict=True), b'{"id":"a"}', {"id": "a"}),
        (
            Json("id string", rest="others"),
            b'{"id":"a","x":1.50,"y":[1, 2]}',
            {"id": "a", "others": '{"x":1.50,"y":[1, 2]}'},
        ),
        (
            Json("id string", rest="others"),
            b'{"y": [1, 2], "id": "a", "x" :1.50}',
            {"id": "a", "others": '{"y":[1, 2],"x":1.50}'},
        ),
        (Json("id string, raw binary"), b'{"id":"a","raw":"AP8="}', {"id": "a", "raw": b"\x00\xff"}),
        (Json("x decimal(38,18)"), b'{"x":1.000000000000000001}', {"x": Decimal("1.000000000000000001")}),
        (Json("at timestamp"), b'{"at":"2026-05-01T12:00:00"}', {"at": datetime(2026, 5, 1, 12, tzinfo=UTC)}),
        (Json("at timestamp"), b'{"at":"2026-05-01"}', {"at": datetime(2026, 5, 1, tzinfo=UTC)}),
        (Json("context string"), b'{"context":{"a" : "b c"}}', {"context": '{"a":"b c"}'}),
    ],
)
def test_what_arrow_cannot_give_is_read_field_by_field(format_, value, expected):
    places, columns = columnar(Pipeline("p", "t", format_, Append("public.p")))(pa.array([value] * 3, pa.binary()))
    assert places.tolist() == [0, 1, 2]
    assert columns.to_pylist() == [expected] * 3


def test_a_text_of_what_is_not_a_number_is_a_text():
    records = [b'{"id":"Information","n":1}', b'{"id":"NaN","n":2,"z":["Inf"]}']
    assert taken(records) == [0, 1]


def test_a_field_that_is_bad_leaves_its_record_alone():
    wide = columnar(Pipeline("p", "t", Json("raw binary, at timestamp"), Append("public.p")))
    good, bad, odd = b'{"raw":"AA==","at":"2026-05-01T12:00:00Z"}', b'{"raw":"A"}', b'{"at":"2026-02-30T12:00:00Z"}'
    places, _ = wide(pa.array([good, bad, good, odd, good], pa.binary()))
    assert places.tolist() == [0, 2, 4]


def test_the_order_of_fields_is_learned_and_records_of_any_order_are_gathered():
    pipeline = Pipeline("p", "t", Json("id string", rest="others"), Append("public.p"))
    orders = [*permutations("abcd")] * 10
    records = [b'{"id":"x",%b}' % b",".join(b'"%b":1' % name.encode() for name in order) for order in orders]
    places, columns = columnar(pipeline)(pa.array(records, pa.binary()))
    assert len(places) == len(records)
    assert [list(json.loads(text)) for text in columns.column("others").to_pylist()] == [
        list(order) for order in orders
    ]


def test_all_of_many_good_records_are_taken_in_their_order():
    records = [record(n) for n in range(2 * RECORDS_PER_PARSE + 7)]
    assert taken(records) == list(range(len(records)))


def test_records_with_a_field_that_arrow_leaves_come_at_their_own_places_among_the_others():
    odd = [b'{"id":"r%d","n":%d,"at":"2026-05-01"}' % (n, n) for n in (1, 3)]
    assert taken([record(0), odd[0], record(2), odd[1], record(4)]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("bad", [b'{"n":"x"}', b'{"n":1}{"n":2}', b'{"n":1', b'{"at":"2026-02-30T12:00:00Z"}'])
def test_a_bad_record_costs_no_more_than_a_few_neighbours_the_columns(bad):
    records = [record(n) for n in range(RECORDS_PER_PARSE)]
    records[777] = bad

    left = set(range(RECORDS_PER_PARSE)) - set(taken(records))

    assert 777 in left
    assert len(left) <= FEW_RECORDS


def test_nested_values_and_numbers_are_the_text_of_a_column_that_wants_one():
    records = [record(0), b'{"id":{"of": [1, 2.50]},"n":1}', b'{"id":1.10,"n":2}', b'{"id":true,"n":3}', record(4)]
    places, columns = TAKE(pa.array(records, pa.binary()))
    assert places.tolist() == [0, 1, 2, 3, 4]
    assert columns.column("id").to_pylist() == ["r0", '{"of":[1,2.50]}', "1.10", "true", "r4"]


@pytest.mark.parametrize(
    "bad",
    [b'{"id":{"a":1},"x":01}', b'{"id":[1,]}', b'{"id":{"a":"\\ud800"}}', b'{"id":' + b"[" * 600 + b"]" * 600 + b"}"],
)
def test_what_is_no_record_is_not_written_anew(bad):
    assert taken([record(0), bad, record(2)]) == [0, 2]


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        None,
        b' {"n":1}',
        b'{"n":\n1}',
        b'{"z":NaN}',
        b'{"z":[-Infinity]}',
        b"\xff{}",
        b'{"id":"\xff"}',
        b'{"amount":1e11}',
    ],
)
def test_a_record_that_is_seen_to_be_odd_costs_nobody_else_anything(odd):
    assert taken([record(0), odd, record(2)]) == [0, 2]


def test_a_decimal_of_one_digit_too_many_is_left_on_either_side_of_zero():
    wide = columnar(Pipeline("p", "t", Json("x decimal(30,8)"), Append("public.p")))
    values = [-(10**22), 10**22, 1 - 10**22, 10**22 - 1]
    places, _ = wide(pa.array([b'{"x":%d}' % value for value in values], pa.binary()))
    assert places.tolist() == [2, 3]


def test_a_batch_of_nothing_but_bad_records_is_soon_given_up(monkeypatch):
    parses = []
    monkeypatch.setattr(json_columns.json, "read_json", lambda *_: parses.append(1) or pa.table({"n": []}))

    assert taken([b'{"n":"x"}'] * RECORDS_PER_PARSE) == []
    assert len(parses) <= SEARCHES + 1


def test_a_record_without_the_targets_key_is_left_to_the_judge():
    keyed = columnar(Pipeline("p", "t", Json("id string, n int", key="id"), Upsert("public.p", key=("id",))))
    places, _ = keyed(pa.array([b'{"id":"a"}', b'{"n":1}', b'{"id":null}', b'{"id":""}'], pa.binary()))
    assert places.tolist() == [0, 3]


def test_a_key_that_is_read_by_itself_is_needed_all_the_same():
    keyed = columnar(Pipeline("p", "t", Json("id string, n int", key="id"), Upsert("public.p", key=("id",))))
    places, _ = keyed(pa.array([b'{"id":{"a":1}}', b'{"n":1}', b'{"id":null}', b'{"id":5}'], pa.binary()))
    assert places.tolist() == [0, 3]
    timed = Pipeline("p", "t", Json("id string, at timestamp", key="id"), Upsert("public.p", key=("id", "at")))
    places, _ = columnar(timed)(
        pa.array([b'{"id":"a","at":"2026-05-01"}', b'{"id":"a"}', b'{"at":"2026-05-01"}'], pa.binary())
    )
    assert places.tolist() == [0]
