"""Tests that `plan`, `run` and `status` warn about a real broker's state, on standard error and as JSON."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource

from lockstep.cli.exits import Exit
from support.scenes.odd_logs import alter, delete_records, grow, high_end, marked, stable_end

if TYPE_CHECKING:
    from support.scenes.here import Here

HOUR = 3_600_000
COMMANDS = [("status", "drill"), ("plan", "drill", "--dry-run"), ("run", "drill")]


def produced_at(here: Here, hours_ago: float, partition: int = 0, **options: Any) -> Producer:
    """Produces two records of an age. With a `transactional.id`, their transaction is left open."""
    producer = Producer({"bootstrap.servers": here.drill.kafka, **options})
    if options:
        producer.init_transactions(20)
        producer.begin_transaction()
    for n in (1, 2):
        value, moment = json.dumps({"id": "w", "n": n}), int(time.time() * 1000 - hours_ago * HOUR)
        producer.produce(here.drill.topic, value, "w", partition=partition, timestamp=moment)
    producer.flush(20)
    return producer


def warned(said) -> list[tuple]:
    return [(w["kind"], w["partition"], w["from_offset"], w["until_offset"]) for w in said.document["warnings"]]


def test_without_cause_nothing_is_said(here, lockstep):
    here.drain()
    for command in COMMANDS:
        assert warned(lockstep(*command, "--json")) == []
        assert lockstep(*command).err == ""


def test_an_open_transaction_is_told_by_every_command_until_it_ends(here, lockstep):
    here.drain()
    kafka, name = here.drill.kafka, here.drill.topic
    end = stable_end(kafka, name)
    hanging = produced_at(here, 2, **{"transactional.id": f"open-{name}"})  # type: ignore[arg-type]
    assert (stable_end(kafka, name), high_end(kafka, name)) == (end, end + 2)

    for command in COMMANDS:
        said = lockstep(*command, "--json")
        assert warned(said) == [("open_transaction", 0, end, end + 2)]
        (warning,) = said.document["warnings"]
        assert warning["records"] == 2
        assert 7_190 < warning["seconds"] < 7_500
        lines = lockstep(*command).err.splitlines()
        assert len(lines) == 1
        assert f"{name}-0" in lines[0]
    hanging.commit_transaction(20)
    marked(kafka, name, end + 3)

    assert warned(lockstep("run", "drill", "--until-idle", "--json")) == []
    assert here.drill.ask("select count(*) from public.drill where id = 'w'") == [(2,)]
    assert here.drill.violations() == []


def test_retention_that_comes_near_and_has_passed_is_told_with_its_command(here, lockstep):
    here.drain()
    kafka, name = here.drill.kafka, here.drill.topic
    end = stable_end(kafka, name, 1)
    produced_at(here, 20, partition=1)
    # The broker looks for what is too old every five minutes: until then the records are there.
    alter(kafka, ConfigResource.Type.TOPIC, name, [("retention.ms", str(24 * HOUR))])

    said = lockstep("status", "drill", "--json")

    assert warned(said) == [("retention_near", 1, end, end + 2)]
    (warning,) = said.document["warnings"]
    assert (warning["records"], round(warning["seconds"] / 3600)) == (end, 4)
    (stream,) = [s for s in said.document["streams"] if s["partition"] == 1]
    assert stream["headroom_seconds"] == warning["seconds"]
    assert "lockstep run drill --until-idle" in lockstep("plan", "drill", "--dry-run").err
    delete_records(kafka, name, end + 1, 1)
    (passed,) = lockstep("status", "drill", "--json").document["warnings"]
    assert passed["next"] == f"lockstep accept-loss drill --partition 1 --from {end} --until {end + 1} --reason ..."
    blocked = lockstep("plan", "drill", "--json")
    assert (blocked.code, warned(blocked)) == (Exit.BLOCKED, [("retention_passed", 1, end, end + 1)])


def test_a_partition_that_was_added_is_told_until_it_was_planned(here, lockstep):
    here.drain()
    name = here.drill.topic
    grow(here.drill.kafka, name, 4)
    produced_at(here, 0, partition=3)

    for command in COMMANDS:
        assert warned(lockstep(*command, "--json")) == [("partition_added", 3, 0, 2)]

    for command in COMMANDS:
        assert warned(lockstep(*command, "--json")) == []
    assert here.drill.violations() == []
