"""Tests a broker that is cut off, falls silent or dies in mid-read.

The answer is one line, and nothing is lost.
"""

from __future__ import annotations

import threading

import pytest

from lockstep.adapters.kafka import client as kafka
from lockstep.adapters.kafka.broker import Broker
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.planning.decisions import Idle
from lockstep.steps.upkeep.reap import reap
from support.fakes import plain_engine
from support.scenes.here import Here, Told

RECORDS, SIZE, MIDWAY = 2_000, 1_000, 300_000


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(plain_engine, "PATIENCE", 2.0)


def exactly_once(here, records: int) -> None:
    here = Here(here.drill)  # another process has connections of its own
    here.drain()
    reap(here.at.conn)
    assert isinstance(here.run().decision, Idle)
    assert here.drill.ask("select count(*) from public.drill") == [(records,)]
    assert here.drill.violations(rest=True) == []


@pytest.mark.parametrize("how", ["cut", "hole"])
@pytest.mark.usefixtures("impatient")
def test_a_broker_that_is_away_is_said_in_one_line(far_kafka, far_drill, how):
    here = far_drill(1)
    getattr(far_kafka.proxy, how)()
    broker = Broker(far_kafka.bootstrap)

    with pytest.raises(Unreachable, match="does not answer") as said:
        broker.view(here.drill.topic)
    assert "\n" not in str(said.value)

    far_kafka.proxy.pass_on()
    assert broker.view(here.drill.topic).bounds[0].stable_end == 1


@pytest.mark.usefixtures("impatient")
def test_records_that_stop_coming_are_an_answer_and_no_hang(far_kafka, far_drill):
    here = far_drill(RECORDS, SIZE)
    far_kafka.proxy.at_bytes(MIDWAY, "hole")

    with pytest.raises(Unreachable, match="gave nothing from offset"):
        list(here.at.broker.records(here.drill.topic, 0, 0, RECORDS))
    assert far_kafka.proxy.struck.is_set()


def test_records_go_on_after_a_cut_without_a_gap(far_kafka, far_drill):
    here = far_drill(RECORDS, SIZE)
    far_kafka.proxy.at_bytes(MIDWAY, "cut")
    pass_again(far_kafka.proxy)

    offsets = [record.offset() for record in here.at.broker.records(here.drill.topic, 0, 0, RECORDS)]

    assert far_kafka.proxy.struck.is_set()
    assert offsets == list(range(RECORDS))


def test_a_cut_in_the_middle_of_a_read_is_read_over(far_kafka, far_drill):
    here = far_drill(RECORDS, SIZE)
    far_kafka.proxy.at_bytes(MIDWAY, "cut")
    pass_again(far_kafka.proxy)

    assert Told(here).end().went_on
    assert far_kafka.proxy.struck.is_set()
    exactly_once(here, RECORDS)


@pytest.mark.usefixtures("impatient")
def test_a_silence_in_the_middle_of_a_read_is_a_refusal_and_the_next_run_does_it(far_kafka, far_drill):
    here = far_drill(RECORDS, SIZE)
    far_kafka.proxy.at_bytes(MIDWAY, "hole")

    said = Told(here).end()
    assert far_kafka.proxy.struck.is_set()
    assert isinstance(said, Refusal), said
    far_kafka.proxy.pass_on()

    exactly_once(here, RECORDS)


@pytest.mark.usefixtures("impatient")
def test_a_broker_killed_in_the_middle_of_a_read_comes_back_with_every_record(far_kafka, far_drill):
    here = far_drill(RECORDS, SIZE)
    far_kafka.proxy.at_bytes(MIDWAY, "cut")
    told = Told(here)
    assert far_kafka.proxy.struck.wait(30)

    far_kafka.kill()
    far_kafka.proxy.pass_on()
    said = told.end()
    assert isinstance(said, Refusal), said
    assert "\n" not in str(said)
    far_kafka.start()

    exactly_once(here, RECORDS)


def pass_again(proxy) -> None:
    threading.Thread(target=lambda: proxy.struck.wait(30) and proxy.pass_on(), daemon=True).start()
