"""Tests that a record that kills its reader's process is found, becomes a reject, and harms no other record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.cli.app import app
from lockstep.core.errors import BadData
from lockstep.dev.servers import spark_connect
from lockstep.steps.proof.verify import verify

ENDED = "the reader's process ended, twice, when it read this record alone"
DECODE = """
import json
import os

def decode(key, value, headers):
    made = json.loads(value)
    if made["n"] < 0:
        os._exit(9)
    return made
"""
MORTAL = """
import json
import os

def decode(key, value, headers):
    for name in os.listdir("HERE"):
        try:
            os.unlink(os.path.join("HERE", name))
        except FileNotFoundError:
            continue
        os._exit(9)
    return json.loads(value)
"""
TRANSFORM = """
import os

import pyarrow as pa
from pyspark.sql import functions as F


def transform(records):
    def survived(batches):
        for batch in batches:
            if min(batch.column("n").to_pylist(), default=0) < 0:
                os._exit(9)
            yield batch

    return records.mapInArrow(survived, records.schema)
"""
KILLERS = {(0, 7), (1, 0), (1, 59)}
EACH = 60


def fill(kafka: str, topic: str, killers: set[tuple[int, int]]) -> list[tuple[str, int]]:
    """Writes so many records to each of two partitions. Returns the harmless ones."""
    producer = Producer({"bootstrap.servers": kafka})
    good = []
    for partition in range(2):
        for offset in range(EACH):
            harm = (partition, offset) in killers
            made = {"id": f"{partition}-{offset}", "n": -1 if harm else offset}
            producer.produce(topic, json.dumps(made).encode(), b"k", partition)
            if not harm:
                good.append((made["id"], made["n"]))
    assert producer.flush(60) == 0
    return sorted(good)  # type: ignore[arg-type]


def rejects(loaded) -> list[tuple]:
    return loaded.ask(
        'select s.partition, r."offset", r.reason, r.value from lockstep.reject r join lockstep.stream s using (stream_id) '
        "order by 1, 2"
    )


def complaints(loaded) -> list:
    checks = verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True)
    return [check for check in checks if not check.ok]


WAYS = {
    "own code": {"form": 'Custom("id string, n int")'},
    "own code, by partition": {"form": 'Custom("id string, n int")', "guarantee": "PerPartition()"},
    "transform, by partition": {"columns": "id string, n int", "transform": TRANSFORM, "guarantee": "PerPartition()"},
    "transform": {"columns": "id string, n int", "transform": TRANSFORM},
}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[] if way == "transform" else [pytest.mark.long]) for way in WAYS]
)
def test_a_record_that_ends_its_readers_process_is_a_reject_and_the_others_are_rows(
    pipeline, topic, kafka, tmp_path, way
):
    name = topic(partitions=2)
    good = fill(kafka, name, KILLERS)
    loaded = pipeline(name, ddl="id text, n int", **({"columns": ""} | WAYS[way]))
    (tmp_path / "pipelines" / loaded.name / "decode.py").write_text(DECODE)

    refused, report = "", None
    try:
        report = loaded.run()
    except BadData as error:
        refused = str(error)

    assert refused == ""
    assert sorted((r.delivered, r.written, r.rejected) for r in report.ranges) == [
        (EACH, EACH - 2, 2),
        (EACH, EACH - 1, 1),
    ]
    assert rejects(loaded) == [(partition, offset, ENDED, None) for partition, offset in sorted(KILLERS)]
    assert sorted(loaded.ask(f"select id, n from public.{loaded.name}")) == good
    given = len(good) if "transform" in WAYS[way] else 2 * EACH
    assert loaded.ask("select records from lockstep.spark_run") == [(given,)], "jobs that were given up do not count"
    assert complaints(loaded) == []


@pytest.mark.parametrize("deaths", [3, pytest.param(40, marks=pytest.mark.long)])
def test_a_machine_that_ends_readers_for_a_while_costs_no_record(pipeline, topic, kafka, tmp_path, deaths):
    name = topic(partitions=2)
    good = fill(kafka, name, set())
    loaded = pipeline(name, "", "id text, n int", form='Custom("id string, n int")')
    deadly = tmp_path / "deaths"
    deadly.mkdir()
    for number in range(deaths):
        (deadly / str(number)).touch()
    (tmp_path / "pipelines" / loaded.name / "decode.py").write_text(MORTAL.replace("HERE", str(deadly)))

    said = []
    while not loaded.ask("select 1 from lockstep.commit"):
        try:
            loaded.run()
        except BadData as error:
            said.append(str(error))
        assert len(said) < 3

    assert list(deadly.iterdir()) == []
    assert rejects(loaded) == []
    assert sorted(loaded.ask(f"select id, n from public.{loaded.name}")) == good


@pytest.mark.long
def test_more_of_them_than_a_batch_may_have_are_named_with_the_next_command(
    pipeline, topic, kafka, tmp_path, monkeypatch
):
    monkeypatch.setattr("lockstep.engine.spark.isolation.MOST_FATAL", 1)
    name = topic(partitions=2)
    fill(kafka, name, {(0, 7), (0, 9)})
    loaded = pipeline(name, "", "id text, n int", form='Custom("id string, n int")')
    (tmp_path / "pipelines" / loaded.name / "decode.py").write_text(DECODE)

    with pytest.raises(BadData) as refused:
        loaded.run()

    said = str(refused.value)
    assert f"{name}-0 offset 7, {name}-0 offset 9" in said
    assert f"lockstep skip {loaded.name} --to 0:10 --reason" in said
    assert "\n" not in said
    assert loaded.ask(f"select * from public.{loaded.name}") == []


@pytest.mark.long
def test_a_redrive_under_a_decoder_that_was_mended_makes_the_record_a_row(
    pipeline, topic, kafka, tmp_path, monkeypatch
):
    name = topic(partitions=2)
    good = fill(kafka, name, {(0, 7)})
    loaded = pipeline(name, "", "id text, n int", form='Custom("id string, n int")')
    decoder = tmp_path / "pipelines" / loaded.name / "decode.py"
    decoder.write_text(DECODE)
    loaded.run()
    assert [row[:2] for row in rejects(loaded)] == [(0, 7)]
    decoder.write_text(DECODE.replace("os._exit(9)", "pass"))
    monkeypatch.setenv("LOCKSTEP_DSN", loaded.dsn)
    monkeypatch.setenv("LOCKSTEP_KAFKA", loaded.kafka)

    done = CliRunner().invoke(app, ["rejects", loaded.name, "--redrive", "--json"], catch_exceptions=False)

    assert done.exit_code == 0, done.output
    assert rejects(loaded) == []
    assert sorted(loaded.ask(f"select id, n from public.{loaded.name}")) == sorted([*good, ("0-7", -1)])
    assert complaints(loaded) == []


@pytest.fixture
def server(tmp_path):
    place = tmp_path / "warm"
    place.mkdir()
    started = spark_connect.start(place)
    yield started
    spark_connect.kill(started)


@pytest.mark.long
def test_a_record_that_ends_a_reader_on_a_server_is_a_reject_too(pipeline, topic, kafka, tmp_path, server):
    name = topic(partitions=2)
    good = fill(kafka, name, {(1, 3)})
    loaded = pipeline(name, "", "id text, n int", form='Custom("id string, n int")')
    (tmp_path / "pipelines" / loaded.name / "decode.py").write_text(DECODE)
    environ = os.environ | {"LOCKSTEP_DSN": loaded.dsn, "LOCKSTEP_KAFKA": loaded.kafka, "SPARK_REMOTE": server.remote}
    environ["LOCKSTEP_ENGINE"] = "spark"

    done = subprocess.run(
        [str(Path(sys.executable).parent / "lockstep"), "run", loaded.name, "--json"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert rejects(loaded) == [(1, 3, ENDED, None)]
    assert sorted(loaded.ask(f"select id, n from public.{loaded.name}")) == good
