"""Tests that a batch that this process reads equals what Spark makes of it, and that each is the one that was chosen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from lockstep.adapters.folders import load
from lockstep.context.systems import engine_for
from lockstep.core.engine import LeftToSpark, Staging
from lockstep.core.errors import BadData, Refusal, Superseded, Unreachable
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.staging import StageWork
from lockstep.engine import kafka_ranges, patience
from lockstep.engine.chosen import ChosenEngine, ProcessReader
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.engine.spark.engine import SparkEngine
from support.engines import BY_SPARK, IN_PROCESS

COLUMNS = "id string, n int, amount decimal(12,2), at timestamp"
DDL = "id text, n int, amount numeric(12,2), at timestamptz"
BAD = ("bad", "no JSON")
RESULTS = """select r.delivered, r.written, r.rejected, r.digest_sum, r.digest_squares, r.first_offset, r.last_offset,
    r.min_timestamp, r.max_timestamp, m.bytes from lockstep.result r left join lockstep.manifest m
    using (batch_id, token, stream_id) order by stream_id"""


def record(i: int) -> tuple[str, str]:
    return f"k{i}", json.dumps({"id": f'r"{i},\\', "n": i, "amount": "12.30", "at": "2026-05-01T12:00:00.25Z"})


def no_spark():
    raise AssertionError("Spark was asked for")


def chosen(loaded, spark=no_spark, choice=IN_PROCESS, dsn: str | None = None) -> ChosenEngine:
    folder, reader = load(loaded.name), KafkaRanges(loaded.kafka, KafkaOptions())
    return ChosenEngine(folder, lambda: ProcessReader(folder, reader, dsn or loaded.dsn), spark, choice)


def spark_of(loaded):
    return lambda: SparkEngine(load(loaded.name), loaded.kafka, loaded.dsn)


def rows(loaded) -> list[tuple]:
    return loaded.ask(
        f"select _offset, _ordinal, id, n, amount, at, partition from public.{loaded.name}"
        " join lockstep.stream on stream_id = _stream order by partition, _offset"
    )


@pytest.fixture
def odd(topic, produce):
    """Makes two partitions, with aborted records between those that count."""
    name = topic(partitions=2)
    for partition in range(2):
        produce(name, map(record, range(40)), partition=partition, end="commit")
        produce(name, map(record, range(5)), partition=partition, end="abort")
        produce(name, map(record, range(40, 300)), partition=partition)
    return name


@pytest.mark.parametrize("more", [{}, {"guarantee": "PerPartition()"}])
def test_this_process_makes_of_a_batch_what_spark_makes_of_it(pipeline, odd, more):
    here, by_spark = pipeline(odd, COLUMNS, DDL, **more), pipeline(odd, COLUMNS, DDL, **more)

    here.run(chosen(here))
    by_spark.run()

    assert rows(here) == rows(by_spark)
    assert len(rows(here)) == 600
    told = here.ask(RESULTS)
    assert len(told) == 4
    assert told[:2] == told[2:]
    assert [row[0] for row in told] == [300] * 4
    assert here.ask("select spark_application_id is null, route ->> 'way' from lockstep.attempt order by batch_id") == [
        (True, "process"), (False, "spark"),
    ]  # fmt: skip
    assert here.violations() == by_spark.violations() == []


def test_a_bad_record_is_a_reject_with_its_reason_and_needs_no_spark(pipeline, topic, produce):
    name = topic(partitions=1)
    emoji = {"id": "\U0001f600", "n": 5, "amount": "1", "at": "2026-05-01"}
    produce(name, [*map(record, range(300)), BAD, ("pair", json.dumps(emoji)), ("nested", '{"id":{"a": 1.50}}')])
    made = pipeline(name, COLUMNS, DDL)

    made.run(chosen(made))

    assert made.ask("select delivered, written, rejected from lockstep.result") == [(303, 302, 1)]
    assert made.ask("select convert_from(value, 'UTF8'), reason from lockstep.reject") == [
        ("no JSON", "not a JSON object")
    ]
    assert [row[2] for row in rows(made)][-2:] == ["\U0001f600", '{"a":1.50}']
    assert made.ask("select spark_application_id, route ->> 'way' from lockstep.attempt") == [(None, "process")]
    assert made.violations() == []


def test_a_record_that_keeps_this_process_busy_hands_the_whole_batch_over_and_those_after_it(
    pipeline, topic, produce, monkeypatch
):
    name = topic(partitions=1)
    produce(name, map(record, range(300)))
    made = pipeline(name, COLUMNS, DDL)
    engine = chosen(made, spark_of(made))
    monkeypatch.setattr(ProcessReader, "read", busy)

    made.run(engine)

    assert made.ask("select delivered, written, rejected from lockstep.result") == [(300, 300, 0)]
    produce(name, map(record, range(5)))
    made.run(engine)
    left = "a record keeps the decoder of this process busy; tasks read, decode and write in one pass"
    assert made.ask("select route from lockstep.attempt") == [({"way": "spark", "because": left},)] * 2
    assert made.ask("select count(*) from lockstep.attempt where spark_application_id is null") == [(0,)]
    assert made.violations() == []


def busy(*_: Any):
    raise LeftToSpark


def busy_at_the_third(decode, _seconds: float):
    """Returns a decoder that is busy from the third batch of records on."""
    batches = iter(range(10))
    return lambda raw: decode(raw) if next(batches) < 2 else busy()


def test_ranges_that_this_process_has_committed_are_found_by_spark(pipeline, topic, produce, monkeypatch):
    name = topic(partitions=3)
    for partition in range(3):
        produce(name, map(record, range(300)), partition=partition)
    made = pipeline(name, COLUMNS, DDL, guarantee="PerPartition()")
    before, files = [], []
    monkeypatch.setattr(kafka_ranges, "OFFSETS_READ_TOGETHER", 300)
    monkeypatch.setattr(patience, "patient", busy_at_the_third)
    made_file = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **how: files.append(made_file(**how)) or files[-1])
    spark = spark_of(made)()
    read = spark.read

    def watched(work, sink):
        before.extend(made.ask("select partition from lockstep.commit join lockstep.stream using (stream_id)"))
        return read(work, sink)

    monkeypatch.setattr(spark, "read", watched)
    made.run(chosen(made, lambda: spark))

    assert sorted(before) == [(0,)]  # the second would have been committed when the third began
    assert [file.closed for file in files] == [True, True]  # the second's rows are given up, and deleted at once
    assert made.ask("select sum(delivered), sum(written), sum(rejected) from lockstep.result") == [(900, 900, 0)]
    assert made.violations() == []


def test_the_choice_of_spark_and_a_transform_are_spark_s(pipeline, odd):
    made = pipeline(odd, COLUMNS, DDL)
    made.run(chosen(made, spark_of(made), BY_SPARK))
    transformed = pipeline(odd, COLUMNS, DDL, transform="def transform(records):\n    return records\n")
    transformed.run(chosen(transformed, spark_of(transformed), BY_SPARK))
    assert made.ask("select count(*) from lockstep.attempt where spark_application_id is not null") == [(2,)]
    assert made.ask("select route ->> 'because' from lockstep.attempt order by batch_id") == [
        ("a test; tasks read, decode and write in one pass",), ("a test; a transform makes the rows",),
    ]  # fmt: skip


def test_the_engine_is_the_commands_or_the_definitions_or_the_environments(pipeline, topic, monkeypatch):
    said, silent = pipeline(topic(), COLUMNS, DDL, engine='"process"'), pipeline(topic(), COLUMNS, DDL)

    def way(made, wanted: str | None = None) -> str:
        at, _, folder = made.parts()
        return engine_for(folder, at, wanted).route().way

    monkeypatch.delenv("LOCKSTEP_ENGINE")
    assert (way(silent), way(said), way(silent, "process"), way(said, "spark")) == (
        "spark",
        "process",
        "process",
        "spark",
    )
    monkeypatch.setenv("LOCKSTEP_ENGINE", "process")
    assert (way(silent), way(silent, "spark")) == ("process", "spark")
    monkeypatch.setenv("LOCKSTEP_ENGINE", "many")
    with pytest.raises(Refusal, match="LOCKSTEP_ENGINE is 'many': it must be spark or process"):
        way(silent)


def test_bytes_are_kept_where_an_expectation_may_put_a_record_aside(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, map(record, range(20)))
    suite = [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": 17}}]
    made = pipeline(name, COLUMNS, DDL, suite=suite, on_violation='"quarantine"')
    made.run(chosen(made))
    assert made.ask("select convert_from(key, 'UTF8'), convert_from(value, 'UTF8') from lockstep.reject order by 1") == [
        record(18), record(19),
    ]  # fmt: skip
    assert made.violations() == []


def a_read(made, begin: int = 0, until: int = 1, dsn: str | None = None) -> tuple[ChosenEngine, StageWork]:
    """Returns a read of offsets that the log may not have yet. There is no attempt, and no staging table."""
    engine = chosen(made, dsn=dsn)
    offsets = OffsetRange(TopicPartition(load(made.name).pipeline.only_topic, 0), begin, until)
    return engine, StageWork(made.name, 1, 1, (StreamRange(1, offsets),), engine.columns())


@pytest.fixture
def made(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, [record(0)])
    return pipeline(name, COLUMNS, DDL)


def test_a_read_that_was_cancelled_before_it_began_does_not_begin_and_the_next_attempt_does(made):
    engine, work = a_read(made)
    engine.cancel()
    with pytest.raises(Superseded, match="batch 1 was taken over"):
        engine.read(work, Staging())
    engine.columns()
    with pytest.raises(BadData, match=r"could not be staged: .*attempt_1_1"):  # this far it comes
        engine.read(work, Staging())


def test_a_read_that_waits_for_the_log_ends_when_it_is_cancelled(made, monkeypatch):
    taken = kafka_ranges.KafkaRanges._taken  # noqa: SLF001 - the moment when there is nothing more
    engine, work = a_read(made, 1, 1_000)  # the record at 0 would be staged, and that fails
    begun = time.monotonic()

    def cancelled_meanwhile(self, found, waiting, held, cut):
        engine.cancel()
        return taken(self, [each for each in found if each.error() is None], waiting, held, cut)

    monkeypatch.setattr(kafka_ranges.KafkaRanges, "_taken", cancelled_meanwhile)
    with pytest.raises(Refusal) as ended:
        engine.read(work, Staging())
    assert isinstance(ended.value, Superseded)
    assert time.monotonic() - begun < 10


def test_spark_is_not_begun_for_a_batch_that_was_cancelled_before(made):
    engine = chosen(made, spark_of(made), BY_SPARK)
    _, work = a_read(made)
    engine.cancel()
    with pytest.raises(Superseded, match="taken over"):
        engine.read(work, Staging())


def test_a_database_that_is_away_is_said_in_one_line(made):
    engine, work = a_read(made, dsn="postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(Unreachable, match=rf"^{made.name}: batch 1 could not be read: ") as refused:
        engine.read(work, Staging())
    assert "\n" not in str(refused.value)


def test_a_read_that_fails_has_left_the_log_while_its_error_is_still_held(made, monkeypatch):
    left, reads, records = [], [], KafkaRanges.records

    def watched(self, *given: Any):
        reads.append(records(self, *given))
        try:
            yield from reads[-1]
        finally:
            left.append(True)

    monkeypatch.setattr(KafkaRanges, "records", watched)
    engine, work = a_read(made)
    with pytest.raises(BadData, match="could not be staged") as failed:
        engine.read(work, Staging())

    found = list(left)
    reads[0].close()  # one that is left open would keep pytest from ending
    assert found == [True]
    assert failed.value.__traceback__ is not None


def test_offsets_that_are_not_in_the_log_are_never_replaced_by_others(made):
    engine, work = a_read(made, 500, 1_000)
    with pytest.raises(Unreachable, match=r"500"):
        engine.read(work, Staging())


@pytest.mark.parametrize(("engine", "found"), [("process", "committed"), ("spark", "java is no program")])
def test_a_batch_needs_no_java_unless_somebody_wants_spark(made, engine, found):
    """The command line runs on a machine where Java cannot be found."""
    elsewhere = os.environ | {"LOCKSTEP_DSN": made.dsn, "LOCKSTEP_KAFKA": made.kafka, "JAVA_HOME": "/nowhere"}
    command = [str(Path(sys.executable).with_name("lockstep")), "run", made.name, "--engine", engine]
    done = subprocess.run(command, env=elsewhere, capture_output=True, text=True, timeout=100, check=False)
    assert found in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert (done.returncode == 0) == (engine == "process")
