"""Tests that JSON has the same values, rejects and reasons by columns and record by record."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.core.pipeline.definition import Append, Json, Pipeline, Upsert
from lockstep.formats.json import columns as json_columns
from lockstep.formats.json.columns import columnar
from lockstep.formats.judged import RecordDecoder
from lockstep.formats.judges import judge_of
from lockstep.formats.values import arrow_type
from support.inputs.nasty_json import COLUMNS, EACH, NASTY, gathered, good, values
from support.inputs.raw_records import raw_batch

SCHEMA = ", ".join(map(" ".join, COLUMNS.items()))
PIPELINE = Pipeline("p", "t", Json(SCHEMA), Append("public.p"))
DEFINITIONS = {
    "plain": Json(SCHEMA),
    "rest": Json("id string, n int, at timestamp", rest="others"),
    "all in rest": Json("id string", rest="z"),
    "strict": Json("id string, n int", strict=True),
    "odd types": Json("id binary, amount decimal(38,18), wide decimal(38,0), z string"),
    "texts": Json(", ".join(f"{name} string" for name in [*COLUMNS, "z"])),
}
ODD_FIELDS = [
    *(
        b'{"id":"a","n":%d%b}' % (n, more)
        for n, more in enumerate([b"", b',"z":1', b',"z":{"b" : [1, 2]}', b',"y":2,"z":1'])
    ),
    *(
        b'{"z":%b,"id":"a","n":1}' % value
        for value in (b'"\\u00e9"', b'"\\ud83d\\ude00"', b'"C:\\\\u0000"', b"1e400", b"-0.0")
    ),
    *(
        b'{"n":1,%b}' % rest
        for rest in (b'"z":1,"z":2', b'"\\u007a":1', b'"z":1,"\\u007a":2', b'"a\\"b":1', b'"\\/":1', b'"/":1')
    ),
    *(
        b'{"n":1,%b}' % rest
        for rest in (b'"":1', b'"z" : 1', b'"z":{"z":1}', b'"id":1,"id":2', b'"y":"z","z":"y"', b'"\xc3\xa9":1')
    ),
    *(
        b'{"id":%b,"n":1}' % value
        for value in (b'{"a" : "b c"}', b'[1 , "\\"x y\\" "]', b'{"a":"\\ud83d"}', b'"YQ=="', b'"Y Q"')
    ),
    *(
        b'{"at":"%b","z":"b"}' % at
        for at in (b"2026-05-01T12:00:00", b"2026-05-01", b"2026-02-30T12:00:00Z", b"2026-05-01T12")
    ),
    *(b'{"at":null,"n":%b}' % n for n in (b'"1"', b"1.0", b"{}", b"null")),
    b'{"n":1, "z": {"a": "b, c: d", "e" : [ ]}, "id": "x"}',
    b'{"others":1,"id":"a"}',
    *(
        b'{"id":"a","n":1,"z":%b}' % odd
        for odd in (b"NaN", b'"NaN"', b'["Inf",1]', b"[Inf]", b"-Infinity", b'"Info, Inf"', b"[1,NaN]")
    ),
]
TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.lists(st.tuples(st.sampled_from(["id", "n", "at", "z", "y", "x", "é"]) | TEXT, VALUES), max_size=7).map(
    dict
)
LAYOUTS = st.sampled_from([{}, {"separators": (",", ":")}, {"ensure_ascii": False}])
KEYED = Pipeline("p", "t", Json("id string, n int", key="id"), Upsert("public.p", key=("id",)))


def judge_alone(records: list[bytes | None], pipeline: Pipeline = PIPELINE) -> list[dict]:
    """Returns what the judge makes of each record, in their order, as Arrow holds it."""
    judge = judge_of(pipeline, None, None)
    outcomes = [judge(b"k", record, None) for record in records]
    columns = {
        column.name: pa.array([each.values.get(column.name) for each in outcomes], arrow_type(column))
        for column in pipeline.format.columns
    }
    return pa.table({"_reason": pa.array([each.reason for each in outcomes], pa.string())} | columns).to_pylist()


@pytest.fixture(scope="module")
def judged() -> list[tuple[bytes | None, dict]]:
    records = [*dict.fromkeys([*NASTY, *EACH, *ODD_FIELDS, *gathered(values, 300)])]
    return list(zip(records, judge_alone(records), strict=True))


def told(row: dict) -> dict[str, str]:
    """Returns a record's values, to the digit and to the sign of a zero."""
    return {name: repr(value) for name, value in row.items() if name != "_reason"}


def differences(judged, size: int, pipeline: Pipeline = PIPELINE) -> list[tuple]:
    """Names records that decode by columns, in batches of this size, to other values than the judge gives."""
    take = columnar(pipeline)
    assert take is not None
    found = []
    for begin in range(0, len(judged), size):
        batch = judged[begin : begin + size]
        places, columns = take(pa.array([value for value, _ in batch], pa.binary()))
        assert len(set(places.tolist())) == len(places) == columns.num_rows
        for place, row in zip(places, columns.to_pylist(), strict=True):
            value, expected = batch[place]
            if expected["_reason"] is not None or told(row) != told(expected):
                found.append((value, expected["_reason"], told(row), told(expected)))
    return found


def test_whatever_is_taken_by_columns_alone_is_what_it_is_to_the_judge(judged):
    assert differences(judged, 1) == []


@pytest.mark.parametrize("size", [5, pytest.param(1000, marks=pytest.mark.long)])
def test_who_a_records_neighbours_are_makes_no_difference(judged, size, monkeypatch):
    monkeypatch.setattr(json_columns, "FEW_RECORDS", 1)
    monkeypatch.setattr(json_columns, "SEARCHES", 10_000)
    mixed = random.Random(size).sample(judged, len(judged))  # noqa: S311 - no secret
    assert differences(mixed, size) == []


@pytest.mark.parametrize("name", [*DEFINITIONS])
@pytest.mark.parametrize(
    ("size", "given_"),
    [
        pytest.param(1, ODD_FIELDS, id="odd"),
        pytest.param(300, None, id="all"),
        *(pytest.param(size, None, marks=pytest.mark.long, id=f"all by {size}") for size in (1, 7)),
    ],
)
def test_each_definition_has_the_judges_rows_by_columns(judged, name, size, given_, monkeypatch):
    monkeypatch.setattr(json_columns, "FEW_RECORDS", 1)
    monkeypatch.setattr(json_columns, "SEARCHES", 10_000)
    pipeline = Pipeline("p", "t", DEFINITIONS[name], Append("public.p"))
    records = given_ or [record for record, _ in judged]
    alone = list(zip(records, judge_alone(records, pipeline), strict=True))
    mixed = random.Random(size).sample(alone, len(alone))  # noqa: S311 - no secret
    assert differences(mixed, size, pipeline) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(OBJECTS, min_size=1, max_size=12), LAYOUTS)
def test_fields_in_any_order_and_layout_are_gathered_as_the_judge_gathers_them(objects, layout):
    pipeline = Pipeline("p", "t", DEFINITIONS["rest"], Append("public.p"))
    records = [json.dumps(each, **layout).encode() for each in objects]
    alone = list(zip(records, judge_alone(records, pipeline), strict=True))
    assert differences(alone, len(alone), pipeline) == []


def test_records_as_a_schema_means_them_are_taken():
    records = [record.encode() for record in gathered(good, 100)]
    take = columnar(PIPELINE)
    expected = judge_alone(records)
    sound = [place for place, row in enumerate(expected) if row["_reason"] is None]

    places, _ = take(pa.array([records[place] for place in sound], pa.binary()))

    assert len(sound) > 450
    assert len(places) >= 0.99 * len(sound)


@pytest.mark.parametrize("pipeline", [PIPELINE, KEYED], ids=["append", "upsert"])
def test_both_readers_together_give_the_rows_rejects_and_reasons_of_the_judge(pipeline, judged, monkeypatch):
    records = [value for value, _ in judged] + [b'{"id":"x","n":%d}' % i for i in range(1000)]
    keys = ([b"k", None, b"\xff"] * len(records))[: len(records)]
    decoder = RecordDecoder(pipeline, None, None, keeps_bytes=True)

    (both,) = decoder([raw_batch(records, keys)])
    monkeypatch.setattr(json_columns, "columnar", lambda _: None)
    (alone,) = decoder([raw_batch(records, keys)])

    assert [repr(row) for row in both.to_pylist()] == [repr(row) for row in alone.to_pylist()]
    assert both.column("_offset").to_pylist() == list(range(len(records)))
    assert both.column("_reason").null_count > 1000
    assert both.column("_reason").null_count < len(records) - 300
