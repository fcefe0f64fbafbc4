"""Tests records by columns: who may take the short way, and the records that are left to Spark.

A bad record costs its neighbours little.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lockstep.core.pipeline.definition import Append, Avro, Envelope, Json, Pipeline, Upsert
from lockstep.core.records import FILE_COLUMN
from lockstep.engine.short_way import ShortWay, join_decoded
from lockstep.formats.json import columns as json_columns
from lockstep.formats.json.columns import FEW_RECORDS, RECORDS_PER_PARSE, SEARCHES, columnar
from lockstep.formats.values import arrow_type

FORMAT = Json("id string, n int, amount decimal(12,2), at timestamp")
PIPELINE = Pipeline("p", "t", FORMAT, Append("public.p"))
TAKE = columnar(PIPELINE)


def record(n: int) -> bytes:
    return json.dumps({"id": f"r{n}", "n": n, "amount": n / 4, "at": "2026-05-01T12:00:00Z"}).encode()


def taken(records: list[bytes | None]) -> list[int]:
    places, columns = TAKE(pa.array(records, pa.binary()))
    assert [row["n"] for row in columns.to_pylist()] == [json.loads(records[place]).get("n") for place in places]
    return places.tolist()


@pytest.mark.parametrize(
    ("format_", "more"),
    [
        (Json("id string", strict=True), {}),
        (Json("id string", rest="others"), {}),
        (Json("id string, raw binary"), {}),
        (Json("id string, amount decimal(38,18)"), {}),
        (Json("id string"), {"envelope": Envelope(timestamp="sent_at")}),
        (Avro("id string"), {}),
    ],
)
def test_what_arrow_cannot_give_exactly_has_no_short_way(format_, more):
    assert columnar(Pipeline("p", "t", format_, Append("public.p"), **more)) is None
    assert columnar(PIPELINE) is not None


def test_all_of_many_good_records_are_taken_in_their_order():
    records = [record(n) for n in range(2 * RECORDS_PER_PARSE + 7)]
    assert taken(records) == list(range(len(records)))


NESTED = b'{"id":{"of":[1,2]}}'  # good, and only Spark keeps its text


@pytest.mark.parametrize("bad", [b'{"n":"x"}', b'{"n":1}{"n":2}', b'{"n":1', b'{"at":"2026-02-30T12:00:00Z"}', NESTED])
def test_a_bad_record_costs_no_more_than_a_few_neighbours_the_short_way(bad):
    records = [record(n) for n in range(RECORDS_PER_PARSE)]
    records[777] = bad

    left = set(range(RECORDS_PER_PARSE)) - set(taken(records))

    assert 777 in left
    assert len(left) <= FEW_RECORDS


@pytest.mark.parametrize(
    "odd", [b"", None, b' {"n":1}', b'{"n":\n1}', b'{"z":"NaN"}', b"\xff{}", b'{"id":"\xff"}', b'{"amount":1e11}']
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
    assert len(parses) <= SEARCHES


def test_a_record_without_the_targets_key_is_left_to_spark():
    keyed = columnar(Pipeline("p", "t", Json("id string, n int", key="id"), Upsert("public.p", key=("id",))))
    places, _ = keyed(pa.array([b'{"id":"a"}', b'{"n":1}', b'{"id":null}', b'{"id":""}'], pa.binary()))
    assert places.tolist() == [0, 3]


def raw(streams: list[int], values: list[bytes | None]) -> pa.RecordBatch:
    rows = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "_stream": pa.array(streams, pa.int32()),
            "_offset": pa.array(range(rows), pa.int64()),
            "_ordinal": pa.array([0] * rows, pa.int32()),
            "_timestamp": pa.array([0] * rows, pa.timestamp("us", "UTC")),
            "_key": pa.array([b"k"] * rows, pa.binary()),
            "_value": pa.array(values, pa.binary()),
            "_headers": pa.array(["[]"] * rows),
            "_bytes": pa.array([1] * rows, pa.int64()),
            "_topic": pa.array(["t"] * rows, pa.string()),
            "_partition": pa.array([0] * rows, pa.int32()),
        }
    )


def as_spark_decodes(left: pa.RecordBatch) -> pa.RecordBatch:
    """Stands in for Spark's own decoder: every record is a reject."""
    arrays = {name: left.column(name) for name in left.schema.names if name not in {"_topic", "_partition"}}
    arrays |= {"_deleted": pa.array([False] * left.num_rows), "_reason": pa.array(["bad"] * left.num_rows)}
    arrays |= {c.name: pa.nulls(left.num_rows, arrow_type(c)) for c in FORMAT.columns}
    arrays["at"] = arrays["at"].cast(pa.timestamp("us", "Europe/Berlin"))
    return pa.RecordBatch.from_pydict(arrays)


@pytest.mark.parametrize("keeps_bytes", [False, True])
def test_both_ways_meet_again_stream_by_stream_and_leave_no_file(tmp_path, monkeypatch, keeps_bytes):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    values = [record(0), b"", record(2), None, record(4), record(5)]
    batches = [raw([7, 7, 7, 8, 8, 9], values), raw([9], [record(0)])]

    way = ShortWay(lambda _: batches, ((),), TAKE, keeps_bytes)
    left = pa.Table.from_batches(list(way.left([pa.RecordBatch.from_pydict({"id": [0]})])))
    found = [
        row
        for batch in join_decoded([as_spark_decodes(left.combine_chunks().to_batches()[0])])
        for row in batch.to_pylist()
    ]

    assert [value for value in left.column("_value").to_pylist() if value is not None] == [b""]
    assert left.column(FILE_COLUMN).drop_null().length() == 4
    assert [(row["_stream"], row["_offset"], row["_reason"], row["n"]) for row in found] == [
        *((7, 1, "bad", None), (7, 0, None, 0), (7, 2, None, 2), (8, 3, "bad", None), (8, 4, None, 4)),
        *((9, 5, None, 5), (9, 0, None, 0)),
    ]
    assert {row["at"] for row in found if row["at"]} == {datetime(2026, 5, 1, 12, tzinfo=UTC)}
    kept = {row["_value"] is None for row in found if row["_reason"] is None}
    assert kept == {not keeps_bytes}
    assert list(tmp_path.iterdir()) == []
