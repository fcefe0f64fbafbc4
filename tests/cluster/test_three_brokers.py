"""Tests a broker that dies in mid-read: its followers have its records, and every record lands once."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress

import psutil
import pytest
from confluent_kafka import Producer

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.dev.servers import processes
from lockstep.ledger.migrate import migrate_target
from support.oracles.checker import at_end
from support.scenes.drill import DEFINITION, TARGET, Drill, said
from support.servers.three_brokers import ThreeBrokers

pytestmark = pytest.mark.long
RECORDS = 300_000


@pytest.fixture
def three(tmp_path):
    brokers = ThreeBrokers(tmp_path)
    yield brokers
    brokers.stop()


@pytest.fixture
def drill(three, database, tmp_path, monkeypatch):
    three.make_topic("held-thrice", partitions=1)
    folder = tmp_path / "pipelines" / "drill"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(DEFINITION.format(topic="held-thrice").replace("records=200", "records=10**6"))
    (folder / "target.sql").write_text(TARGET)
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(folder.parent))
    conn = connect(database)
    migrate_target(conn, load("drill"))
    conn.close()
    producer = Producer({"bootstrap.servers": three.bootstrap, "acks": "all", "queue.buffering.max.messages": RECORDS})
    for i in range(RECORDS):
        producer.produce("held-thrice", json.dumps({"id": f"r{i}", "n": i}))
    producer.flush(60)
    here = Drill(database, three.bootstrap, "held-thrice", folder.parent)
    yield here
    here.end()


def test_a_leader_killed_in_mid_read_loses_and_doubles_nothing(three, drill):
    running = drill.start("--spark", "--until-idle", fault="task.read_mid=stop")
    stopped = stopped_worker(drill.dsn)

    three.kill(three.leader("held-thrice", 0))
    os.kill(stopped, signal.SIGCONT)
    said(running, seconds=240)
    again = drill.run("--spark", "--until-idle")

    assert again["decision"] == "Idle", again
    assert drill.violations() + at_end(drill.dsn, drill.kafka, "drill") == []
    assert drill.ask("select count(*) from public.drill") == [(RECORDS,)]


def stopped_worker(dsn: str, seconds: float = 90) -> int:
    """Returns the Spark worker on this database that has stopped itself in mid-read."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for pid in processes.having(f"LOCKSTEP_DSN={dsn}"):
            with suppress(psutil.NoSuchProcess):
                if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
                    return pid
        time.sleep(0.05)
    raise AssertionError("no worker came to the middle of its reading")
