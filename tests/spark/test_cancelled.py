"""Tests that the read of a batch that was taken away stops, whenever the word comes."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from lockstep.adapters.folders import load
from lockstep.airflow.job import cancel_jobs
from lockstep.core.engine import Staging
from lockstep.core.errors import BadData, Refusal, Superseded
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.staging import StageWork
from lockstep.engine.spark import part_jobs
from lockstep.engine.spark.engine import SparkEngine
from lockstep.engine.spark.session import session

ID, DDL = "id string, n int", "id text, n int"


@pytest.fixture
def engine(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, [("k", b"{}")])
    loaded = pipeline(name, ID, DDL)
    return SparkEngine(load(loaded.name), loaded.kafka, loaded.dsn)


@pytest.fixture
def work(engine):
    pipeline = engine._folder.pipeline  # noqa: SLF001 - the fixture above made it
    offsets = OffsetRange(TopicPartition(pipeline.topic, 0), 0, 1)
    return StageWork(pipeline.name, 1, 1, (StreamRange(1, offsets),), engine.columns())


def test_a_read_that_was_cancelled_before_it_began_does_not_begin(engine, work):
    engine.cancel()
    with pytest.raises(Superseded, match="taken over"):
        engine.read(work, Staging())


def test_a_read_that_is_cancelled_before_its_first_job_ends(engine, work, monkeypatch):
    written = part_jobs.written

    def cancelled_meanwhile(*given: Any):
        thread = threading.Thread(target=engine.cancel)
        thread.start()
        thread.join()
        time.sleep(0.2)
        return written(*given)

    monkeypatch.setattr(part_jobs, "written", cancelled_meanwhile)
    with pytest.raises(Superseded, match="taken over") as refused:
        engine.read(work, Staging())
    assert "cancelled" in str(refused.value.__cause__)


def test_the_next_attempt_is_not_cancelled_with_the_last(engine, work):
    engine.cancel()
    engine.columns()
    with pytest.raises(Refusal) as refused:  # there is no staging table, so this far it comes
        engine.read(work, Staging())
    assert not isinstance(refused.value, Superseded)


def test_a_read_whose_jobs_end_with_their_task_says_nothing_of_data_or_code(engine, work, monkeypatch):
    """Three tasks that a person clears would else block the batch, as one that failed by its data."""

    def ended_meanwhile(*_: Any):
        threading.Timer(1, cancel_jobs).start()
        return session().sparkContext.parallelize([20.0]).map(time.sleep).collect()

    monkeypatch.setattr(part_jobs, "written", ended_meanwhile)
    with pytest.raises(Refusal, match="batch 1 was being read when its task was ended") as refused:
        engine.read(work, Staging())
    assert not isinstance(refused.value, BadData | Superseded)
    assert "cancel" in str(refused.value.__cause__)
