"""Tests the doctor for a pipeline that has committed.

Waiting records are counted from its positions, and its pace is its batches'.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.facts import SurveyedBroker
from lockstep.core.health.findings import Check
from lockstep.core.health.machine_findings import MachineFacts
from lockstep.steps.inspect.doctor import Places, doctor
from support.scenes.odd_logs import settled

MACHINE = MachineFacts({}, None, cores=2, spark_memory=2**30, memory=2**34)


@pytest.fixture
def look(here):
    """Returns `look()`, the doctor's findings about the drill's pipeline, by check."""
    places = Places(lambda: here.drill.dsn, lambda: SurveyedBroker(here.drill.kafka))

    def findings(machine: MachineFacts = MACHINE):
        report = doctor([load("drill").pipeline], [], places, machine, datetime.now(UTC))
        return {finding.check: finding for finding in report.findings}

    return findings


def set_topic(here, **settings: Any) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, here.drill.topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": here.drill.kafka})
    admin.incremental_alter_configs([resource])[resource].result(20)


def send(here, partition: int, *old: timedelta) -> None:
    producer = Producer({"bootstrap.servers": here.drill.kafka})
    for age in old:
        at = int((datetime.now(UTC) - age).timestamp() * 1000)
        producer.produce(here.drill.topic, json.dumps({"id": "x", "n": 1}), partition=partition, timestamp=at)
    producer.flush(20)


def test_headroom_is_of_what_is_not_committed_and_ends_with_it(here, look):
    here.rewrite("limits=", 'schedule="*/5 * * * *", limits=')
    set_topic(here, retention_ms=3_600_000)
    send(here, 1, timedelta(minutes=58))
    here.drain()
    assert Check.HEADROOM not in look()

    send(here, 2, timedelta(minutes=10), timedelta(minutes=59))
    assert Check.HEADROOM not in look()  # the oldest offset is what retention comes to first
    send(here, 0, timedelta(minutes=50))
    found = look()[Check.HEADROOM]

    assert (str(found.severity), found.subject) == ("warning", f"{here.drill.topic}-0")
    assert 500 < int(found.found.split()[0]) <= 600
    here.drain()
    assert Check.HEADROOM not in look()


def test_size_and_limits_are_held_against_what_the_batches_read(here, look):
    here.rewrite("limits=", 'schedule="@hourly", limits=')
    set_topic(here, retention_bytes=1_000)
    before = look()
    assert "no batch tells yet" in before[Check.RETENTION_BYTES].why
    assert Check.LIMITS not in before

    here.drain()
    assert "no batch tells yet" in look()[Check.RETENTION_BYTES].why  # all of it was sent within a moment
    send(here, 1, *(timedelta(seconds=second) for second in range(900, 0, -1)))
    here.drain()
    small = MachineFacts({}, None, cores=2, spark_memory=1_000, memory=2**34)
    after = look(small)

    assert "bytes a second" in after[Check.RETENTION_BYTES].found
    assert str(after[Check.RETENTION_BYTES].severity) == "problem"
    assert "a batch may hold" in after[Check.LIMITS].found
    set_topic(here, retention_bytes=2**62)
    assert Check.RETENTION_BYTES not in look()


def test_records_behind_an_open_transaction_do_not_wait_for_retention(here, look, produce):
    set_topic(here, retention_ms=3_600_000)
    here.drain()
    producer = produce(here.drill.topic, [("k", "{}")] * 4, partition=0, end="open")
    found = look()[Check.TRANSACTION]
    producer.abort_transaction(20)
    settled(here.drill.kafka, here.drill.topic)

    assert found.subject == f"{here.drill.topic}-0"
    assert found.found.startswith("4 offsets from ")
    assert {Check.TRANSACTION, Check.HEADROOM}.isdisjoint(look())


def test_full_batches_that_end_early_are_told_the_limits_that_suit_them(here, look):
    here.rewrite("limits=Limits(records=200)", 'schedule="*/5 * * * *", limits=Limits(records=20)')
    for _ in range(4):
        here.run()
    assert Check.LIMITS not in look(), "four batches are not enough"
    here.run()

    found = look()[Check.LIMITS]

    assert found.found.startswith("20 offsets, as many as a batch may have, take ")
    suits = re.fullmatch(r"limits=Limits\(records=([\d_]+), seconds=150\),  # [12] tasks?", found.remedy)
    assert suits, found.remedy
    here.rewrite("limits=Limits(records=20)", found.remedy.partition(",  #")[0])
    while here.run().went_on:
        pass
    assert Check.LIMITS not in look(), "batches that small tell nothing of the new limit"
