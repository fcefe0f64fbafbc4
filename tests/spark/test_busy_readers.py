"""Tests that a record that keeps its reader busy is found, becomes a reject, and harms no other record."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.errors import BadData
from lockstep.engine.chosen import ChosenEngine, engine_of
from lockstep.formats.json.columns import JsonColumns
from lockstep.steps.proof.verify import verify
from spark.test_isolated import DECODE, EACH, ENDED, fill, rejects
from support.engines import IN_PROCESS

BUSY = "the reader made no progress within record_limits.seconds, twice, when it read this record alone"
SECONDS = "RecordLimits(seconds=2)"
ENDLESS = DECODE.replace("os._exit(9)", "while True: pass")
LOCKED_IN_C = DECODE.replace("os._exit(9)", "import decimal; int(decimal.Decimal('1e9999999'))")
SLOW = DECODE.replace("os._exit(9)", "pass").replace("return made", "import time; time.sleep(0.1); return made")
BOTH = """
import json
import os

def decode(key, value, headers):
    made = json.loads(value)
    if made["id"] == "1-0":
        os._exit(9)
    while made["n"] < 0:
        pass
    return made
"""
# It ends long after its deadline, so that the test fails, and does not hang, where there is none.
BY_BATCH = """
import time


def transform(records):
    def worked(batches):
        for batch in batches:
            until = time.monotonic() + 40
            while min(batch.column("n").to_pylist(), default=0) < 0 and time.monotonic() < until:
                pass
            yield batch

    return records.mapInArrow(worked, records.schema)
"""
BY_ROW = """
from pyspark.sql import functions as F


@F.udf("int")
def worked(n):
    while n < 0:
        pass
    return n


def transform(records):
    return records.withColumn("n", worked("n"))
"""
SLOW_TRANSFORM = """
import time


def transform(records):
    def worked(batches):
        for batch in batches:
            for row in range(batch.num_rows):
                time.sleep(0.1)
                yield batch.slice(row, 1)

    return records.mapInArrow(worked, records.schema)
"""
BUSY_ONES = {(0, 7), (1, 0)}
OWN = {"columns": "", "form": 'Custom("id string, n int")', "record_limits": SECONDS}
TRANSFORMED = {"columns": "id string, n int", "record_limits": SECONDS}
WAYS = {
    "own code": OWN | {"decode": ENDLESS},
    "own code, locked in C": OWN | {"decode": LOCKED_IN_C},
    "own code, by partition": OWN | {"decode": ENDLESS, "guarantee": "PerPartition()"},
    "a transform of batches": TRANSFORMED | {"transform": BY_BATCH},
    "a transform of rows": TRANSFORMED | {"transform": BY_ROW},
    "a transform, by partition": TRANSFORMED | {"transform": BY_BATCH, "guarantee": "PerPartition()"},
}
QUICK = {"own code, locked in C"}


def made(pipeline, topic: str, tmp_path, *, decode: str | None = None, **options: str):
    loaded = pipeline(topic, ddl="id text, n int", **options)
    if decode:
        (tmp_path / "pipelines" / loaded.name / "decode.py").write_text(decode)
    return loaded


def rows(loaded) -> list[tuple]:
    return sorted(loaded.ask(f"select id, n from public.{loaded.name}"))


@pytest.mark.parametrize("way", [pytest.param(w, marks=[] if w in QUICK else [pytest.mark.long]) for w in WAYS])
def test_a_record_that_keeps_its_reader_busy_is_a_reject_and_the_others_are_rows(pipeline, topic, kafka, tmp_path, way):
    name = topic(partitions=2)
    busy = BUSY_ONES if way == "own code" else {(0, 7)}
    good = fill(kafka, name, busy)
    loaded = made(pipeline, name, tmp_path, **WAYS[way])

    loaded.run()

    assert rejects(loaded) == [(partition, offset, BUSY, None) for partition, offset in sorted(busy)]
    assert rows(loaded) == good
    checks = verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=way != "a transform of batches")
    assert [check for check in checks if not check.ok] == []


@pytest.mark.long
def test_each_of_two_records_has_its_own_reason(pipeline, topic, kafka, tmp_path):
    name = topic(partitions=2)
    good = fill(kafka, name, BUSY_ONES)
    loaded = made(pipeline, name, tmp_path, **OWN, decode=BOTH)

    loaded.run()

    assert rejects(loaded) == [(0, 7, BUSY, None), (1, 0, ENDED, None)]
    assert rows(loaded) == good


@pytest.mark.parametrize(
    "options",
    [
        OWN | {"decode": SLOW},
        pytest.param(TRANSFORMED | {"transform": SLOW_TRANSFORM}, marks=pytest.mark.long),
    ],
    ids=["own code", "a transform"],
)
def test_a_task_that_is_slow_and_makes_progress_is_left_alone(pipeline, topic, kafka, tmp_path, options):
    name = topic(partitions=2)
    good = fill(kafka, name, set())
    loaded = made(pipeline, name, tmp_path, **options)

    began = time.monotonic()
    loaded.run()

    assert time.monotonic() - began > EACH * 0.1 > 2
    assert rejects(loaded) == []
    assert rows(loaded) == good


@pytest.mark.long
def test_a_machine_that_is_slow_as_a_whole_costs_no_record(pipeline, topic, kafka, tmp_path):
    name = topic(partitions=2)
    fill(kafka, name, set())
    loaded = made(pipeline, name, tmp_path, **OWN, decode=ENDLESS.replace('made["n"] < 0', "True"))

    with pytest.raises(BadData) as refused:
        loaded.run()

    said = str(refused.value)
    assert "made no progress within record_limits.seconds" in said
    assert f"{name}-0 " in said
    assert f"lockstep skip {loaded.name} --to PARTITION:OFFSET --reason ..." in said
    assert "\n" not in said
    assert rejects(loaded) == []


@pytest.fixture
def endless_driver(monkeypatch):
    """Lets the decoder by columns never end in this process, for values that hold -1. Spark's tasks have their own."""
    plain = JsonColumns.__call__

    def endless(self, values: pa.Array):
        while pc.any(pc.match_substring(pc.cast(values, pa.string()), '"n": -1')).as_py():
            time.sleep(0.01)
        return plain(self, values)

    monkeypatch.setattr(JsonColumns, "__call__", endless)


@pytest.mark.usefixtures("endless_driver")
@pytest.mark.parametrize("guarantee", ["PerBatch()", pytest.param("PerPartition()", marks=pytest.mark.long)])
def test_a_record_that_keeps_the_process_of_small_batches_busy_is_left_to_spark(
    pipeline, topic, kafka, tmp_path, guarantee
):
    name = topic(partitions=2)
    good = fill(kafka, name, {(0, 7)})
    options = {"guarantee": guarantee} if guarantee != "PerBatch()" else {}
    loaded = made(pipeline, name, tmp_path, **TRANSFORMED, **options)
    at, _, folder = loaded.parts()
    engine = engine_of(folder, at.broker, at.dsn, lambda: None, IN_PROCESS)
    assert isinstance(engine, ChosenEngine)

    began = time.monotonic()
    loaded.run(engine)

    assert time.monotonic() - began >= 2
    assert rejects(loaded) == []
    assert rows(loaded) == sorted([*good, ("0-7", -1)])
