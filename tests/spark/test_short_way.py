"""Tests that the short way gives the same values, rejects and reasons as the long one, record by record."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.pipeline.definition import Append, Json, Pipeline, Upsert
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.engine.short_way import RAW_SCHEMA, join_decoded
from lockstep.engine.spark.rows import in_spark
from lockstep.engine.spark.session import session
from lockstep.engine.spark.short import shortened
from lockstep.formats import decoded
from lockstep.formats.json import columns as json_columns
from lockstep.formats.json.columns import columnar
from support.inputs.nasty_json import COLUMNS, EACH, NAMES, NASTY, gathered, good, values

PIPELINE = Pipeline("p", "t", Json(", ".join(map(" ".join, COLUMNS.items()))), Append("public.p"))
KEYED = Pipeline("p", "t", Json("id string, n int", key="id"), Upsert("public.p", key=("id",)))


def frame(records: list[bytes | None], keys: list[bytes | None] | None = None, streams: int = 1):
    rows = len(records)
    share = -(-rows // streams)
    columns = {
        "_stream": pa.array([i // share for i in range(rows)], pa.int32()),
        "_offset": pa.array(range(rows), pa.int64()),
        "_ordinal": pa.array([0] * rows, pa.int32()),
        "_timestamp": pa.array([0] * rows, pa.timestamp("us", "UTC")),
        "_key": pa.array(keys or [b"k"] * rows, pa.binary()),
        "_value": pa.array(records, pa.binary()),
        "_headers": pa.array(["[]"] * rows),
        "_bytes": pa.array([1] * rows, pa.int32()),
        "_topic": pa.array(["t"] * rows, pa.string()),
        "_partition": pa.array([0] * rows, pa.int32()),
    }
    return session().createDataFrame(pa.table(columns), in_spark(RAW_SCHEMA)).coalesce(1)


def by_the_long_way(records: list[bytes | None]) -> list[dict]:
    """Returns what Spark makes of each record, in their order."""
    return sorted(decoded(frame(records), PIPELINE).toArrow().to_pylist(), key=lambda row: row["_offset"])


@pytest.fixture(scope="module")
def judged() -> list[tuple[bytes | None, dict]]:
    records = [*dict.fromkeys([*NASTY, *EACH, *gathered(values, 300)])]
    return list(zip(records, by_the_long_way(records), strict=True))


def told(row: dict) -> dict[str, str]:
    """Returns a record's values, to the digit and to the sign of a zero."""
    return {name: repr(row[name]) for name in NAMES}


def differences(judged, size: int) -> list[tuple]:
    """Names records that decode by columns, in batches of this size, to other values than in Spark."""
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


def test_whatever_is_taken_by_columns_alone_is_what_it_is_to_spark(judged):
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
    expected = by_the_long_way(records)
    sound = [place for place, row in enumerate(expected) if row["_reason"] is None]

    places, _ = take(pa.array([records[place] for place in sound], pa.binary()))

    assert len(sound) > 450
    assert len(places) >= 0.95 * len(sound)  # -0 and NaN within a text are looked at by Spark


def sorted_rows(made) -> list[dict]:
    return sorted(made.toArrow().to_pylist(), key=lambda row: row["_offset"])


@pytest.mark.parametrize("pipeline", [PIPELINE, KEYED], ids=["append", "upsert"])
def test_both_ways_give_the_same_rows_rejects_and_reasons(pipeline, judged):
    records = [value for value, _ in judged] + [b'{"id":"x","n":%d}' % i for i in range(1000)]
    keys = [b"k", None, b"\xff"] * len(records)
    raw = frame(records, keys[: len(records)], streams=3)
    long = decoded(raw, pipeline)

    folder = PipelineFolder(pipeline, Path(), None, None, None)
    schema = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in long.schema.fields)
    log = raw.toArrow()

    def read(ranges):
        for item in ranges:
            yield from log.filter(pc.equal(log["_stream"], item.stream_id)).to_batches(700)

    ranges = [StreamRange(n, OffsetRange(TopicPartition("t", n), 0, 1000)) for n in range(3)]
    short = decoded(shortened([ranges[:2], ranges[2:]], folder, read), pipeline).mapInArrow(join_decoded, schema)  # type: ignore[list-item]

    found, expected = sorted_rows(short), sorted_rows(long)
    kept = ("_key", "_value", "_headers")
    for row in [*found, *expected]:
        if row["_reason"] is None:
            row.update(dict.fromkeys(kept))
    assert [repr(row) for row in found] == [repr(row) for row in expected]
