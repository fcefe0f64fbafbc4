"""Tests odd starts, keys and logs with a real broker. Only Spark is left out."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from lockstep.adapters.folders import load
from lockstep.core.changes.person import Person
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Blocked, Done, Idle, Resume, Start
from lockstep.steps.changes.decisions import pause, unpause
from lockstep.steps.changes.retire import retire
from lockstep.steps.proof.verify import verify
from support.scenes.odd_logs import recreate

ME = Person("me", "a test")


def more(n: int, start: int) -> list[tuple[str, str]]:
    return [(f"k{i}", json.dumps({"id": f"m{i}", "n": i})) for i in range(start, start + n)]


def test_a_start_at_a_time_takes_what_came_at_or_behind_it(here, produce):
    time.sleep(1.1)
    now = datetime.now(UTC)
    moment = now.replace(microsecond=now.microsecond // 1000 * 1000)  # Kafka's stamps are milliseconds
    produce(here.drill.topic, more(20, 1_000))
    here.rewrite("limits=", f'start="{moment.isoformat()}", limits=')

    here.drain()

    assert here.drill.ask("select count(*), min(n) from public.drill") == [(20, 1_000)]
    assert here.drill.ask("select count(*) from lockstep.boundary") == [(3,)]
    assert here.drill.violations() == []


def test_a_start_in_the_future_is_refused(here):
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    here.rewrite("limits=", f'start="{tomorrow.isoformat()}", limits=')
    with pytest.raises(Refusal, match="has not come yet"):
        here.run()


def test_one_key_is_one_batch_however_often_it_is_called(here):
    assert isinstance(here.run(key="monday").decision, Start)
    again = here.run(key="monday")
    assert isinstance(again.decision, Done)
    assert sum(row.written for row in again.ranges) == 150
    assert len(here.drill.committed()) == 1


def test_a_dry_run_writes_nothing(here):
    assert isinstance(here.plan(dry_run=True), Start)
    for table in ("stream", "batch", "claim", "call"):
        assert here.drill.ask(f"select count(*) from lockstep.{table}") == [(0,)]


def test_a_planned_batch_keeps_its_offsets_whatever_arrives(here, produce):
    assert isinstance(here.plan(), Start)
    produce(here.drill.topic, more(50, 2_000))

    report = here.run()

    assert isinstance(report.decision, Resume)
    assert sum(row.delivered for row in report.ranges) == 150


def test_a_paused_pipeline_starts_nothing_and_finishes_what_it_began(here, produce):
    here.plan()
    pause(here.at.conn, "drill", ME)
    produce(here.drill.topic, more(5, 3_000))

    assert isinstance(here.run().decision, Resume)
    idle = here.run().decision
    unpause(here.at.conn, "drill", ME)

    assert isinstance(idle, Idle)
    assert "paused by me: a test" in idle.reason
    assert isinstance(here.run().decision, Start)
    assert here.drill.violations() == []


def test_a_recreated_topic_stops_the_pipeline_until_it_is_retired(here, produce):
    here.drain()
    recreate(here.drill.kafka, here.drill.topic)
    produce(here.drill.topic, more(30, 4_000))

    blocked = here.run().decision

    assert isinstance(blocked, Blocked)
    assert "lockstep retire drill" in blocked.next_command
    retire(here.at.conn, here.at.broker, load("drill").pipeline, None, ME)
    here.drain()
    assert here.drill.ask("select count(*) from public.drill") == [(180,)]
    assert here.drill.ask("select max(incarnation), max(epoch) from lockstep.stream") == [(1, 1)]
    assert all(check.ok for check in verify(here.at.conn, here.at.broker, load("drill"), deep=True))


def test_another_target_is_another_pipeline(here):
    here.drain()
    here.rewrite("public.drill", "public.elsewhere")
    blocked = here.run().decision
    assert isinstance(blocked, Blocked)
    assert "target" in blocked.reason
