"""Tests that JSON has the same values, rejects and reasons by columns and record by record."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lockstep.core.pipeline.definition import Append, Json, Pipeline, Upsert
from lockstep.formats.json import columns as json_columns
from lockstep.formats.json.columns import columnar
from lockstep.formats.judged import RecordDecoder
from lockstep.formats.judges import judge_of
from lockstep.formats.values import arrow_type
from support.inputs.nasty_json import COLUMNS, EACH, NAMES, NASTY, gathered, good, values
from support.inputs.raw_records import raw_batch

PIPELINE = Pipeline("p", "t", Json(", ".join(map(" ".join, COLUMNS.items()))), Append("public.p"))
KEYED = Pipeline("p", "t", Json("id string, n int", key="id"), Upsert("public.p", key=("id",)))


def judge_alone(records: list[bytes | None]) -> list[dict]:
    """Returns what the judge makes of each record, in their order, as Arrow holds it."""
    judge = judge_of(PIPELINE, None, None)
    outcomes = [judge(b"k", record, None) for record in records]
    columns = {
        column.name: pa.array([each.values.get(column.name) for each in outcomes], arrow_type(column))
        for column in PIPELINE.format.columns
    }
    return pa.table({"_reason": pa.array([each.reason for each in outcomes], pa.string())} | columns).to_pylist()


@pytest.fixture(scope="module")
def judged() -> list[tuple[bytes | None, dict]]:
    records = [*dict.fromkeys([*NASTY, *EACH, *gathered(values, 300)])]
    return list(zip(records, judge_alone(records), strict=True))


def told(row: dict) -> dict[str, str]:
    """Returns a record's values, to the digit and to the sign of a zero."""
    return {name: repr(row[name]) for name in NAMES}


def differences(judged, size: int) -> list[tuple]:
    """Names records that decode by columns, in batches of this size, to other values than the judge gives."""
    take = columnar(PIPELINE)
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


def test_records_as_a_schema_means_them_are_taken():
    records = [record.encode() for record in gathered(good, 100)]
    take = columnar(PIPELINE)
    expected = judge_alone(records)
    sound = [place for place, row in enumerate(expected) if row["_reason"] is None]

    places, _ = take(pa.array([records[place] for place in sound], pa.binary()))

    assert len(sound) > 450
    assert len(places) >= 0.95 * len(sound)  # -0 and NaN within a text are looked at by the judge


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
