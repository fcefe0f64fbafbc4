"""Tests that a stage that fails prints one line: no stack trace, and no line of the JVM's, in every way to start Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from psycopg2.extensions import parse_dsn

from lockstep.adapters.folders import load

TESTS = Path(__file__).parent.parent
QUIET = TESTS.parent / "include" / "lockstep" / "engine" / "spark" / "spark.log4j2.properties"
ID, DDL = "id string, n int", "id text, n int"
BOOM = """
from pyspark.sql import functions as F
@F.udf("int")
def boom(n):
    raise ValueError("no such customer")
def transform(r):
    return r.withColumn("n", boom("n"))
"""
NO_COLUMN = "def transform(r):\n    return r.select('nope')\n"


@pytest.fixture
def broken(pipeline, topic, produce):
    name = topic(partitions=3)
    produce(name, [(f"k{i}", b'{"id":"a","n":1}') for i in range(30)])
    return pipeline(name, ID, DDL, transform=BOOM)


def called(loaded, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(TESTS.parent / "include"), str(TESTS)])
    environ = os.environ | {"LOCKSTEP_DSN": loaded.dsn, "LOCKSTEP_KAFKA": loaded.kafka, "PYTHONPATH": path} | more
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)


def lockstep(loaded, **more: str) -> subprocess.CompletedProcess[str]:
    return called(loaded, str(Path(sys.executable).parent / "lockstep"), "run", loaded.name, **more)


def submitted(loaded, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]", *options]
    return called(loaded, *command, str(TESTS / "crash" / "runner.py"), loaded.name, "--spark")


def test_a_task_that_fails_is_one_line(broken):
    done = lockstep(broken)
    assert done.stderr == f"{broken.name}: batch 1 could not be staged: ValueError: no such customer\n"
    assert done.stdout == ""
    assert broken.ask("select spark_ui, spark_event_log from lockstep.attempt") == [(None, None)], (
        "nobody asked for them"
    )


@pytest.mark.long
def test_what_spark_says_of_a_task_that_fails_is_where_it_was_asked_for(broken, tmp_path):
    events = tmp_path / "events"
    more = {"LOCKSTEP_SPARK_EVENTS": str(events), "LOCKSTEP_SPARK_UI": "0"}
    lockstep(broken, LOCKSTEP_SPARK_LOG=str(tmp_path / "spark.log"), **more)
    assert "TaskSetManager: Lost task" in (tmp_path / "spark.log").read_text()

    ((ui, log),) = broken.ask("select spark_ui, spark_event_log from lockstep.attempt")
    assert re.fullmatch(r"http://(localhost|127\.0\.0\.1):\d+", ui)
    assert Path(log).parent == events
    said = "".join(pa.input_stream(str(log), compression="zstd").read().decode() for log in events.glob("*/*.zstd"))
    assert "SparkListenerTaskEnd" in said
    assert parse_dsn(broken.dsn)["password"] not in said


@pytest.mark.long
def test_a_transform_that_names_no_column_is_one_line(broken):
    (load(broken.name).path / "transform.py").write_text(NO_COLUMN)
    done = lockstep(broken)
    assert done.stderr.startswith(f"{broken.name}: transform.py fails: AnalysisException: [UNRESOLVED_COLUMN")
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_under_spark_submit_a_failed_task_prints_no_trace(broken):
    done = submitted(broken, "--driver-java-options", f"-Dlog4j2.configurationFile=file:{QUIET}")
    assert "no such customer" in done.stdout
    assert done.stderr == "WARNING: Using incubator modules: jdk.incubator.vector\n"

    done = submitted(broken)
    assert "no such customer" in done.stdout
    assert not [line for line in done.stderr.splitlines() if "Exception" in line or line.startswith("\tat ")]


def test_spark_that_does_not_start_says_why(broken):
    done = lockstep(broken, LOCKSTEP_SPARK_MEMORY="2x")
    assert done.stderr.startswith("Spark does not start: ")
    assert "2x" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_run_that_finds_nothing_to_do_does_not_import_pyspark(broken):
    (load(broken.name).path / "transform.py").unlink()
    assert lockstep(broken).returncode == 0
    program = (
        "import sys; from lockstep.cli.app import main\ntry:\n    main()\nfinally:\n    print('pyspark' in sys.modules)"
    )
    done = called(broken, sys.executable, "-c", program, "run", broken.name)
    assert done.stdout.splitlines()[-1] == "False", done
