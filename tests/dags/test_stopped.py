"""Stops a pipeline in four ways, and asks the page, the commands, both pull endpoints and a real Prometheus for it.

All of it is real: Airflow, its scheduler, Kafka, Postgres, the exporter, and the rules of docs/monitoring.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import httpx
import pytest
from confluent_kafka import Producer

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.cli.exits import Exit
from lockstep.dev.servers import airflow, stack
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.upkeep.reap import reap
from support.oracles.exposed import conditions, health, values
from support.scenes.drill import DEFINITION, Drill, write_folder
from support.servers.own_broker import OwnBroker
from support.servers.scheduled import House, an_airflow, wait_for
from support.servers.servers import make_topic
from support.servers.watching import NEEDED, Target, Watching, hurried_rules

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [NEEDED, pytest.mark.long, pytest.mark.timeout(1500)]
EVERY_MINUTE = "* * * * *"  # the shortest schedule that cron has
TWO_SCHEDULES = 120.0  # seconds
WAITED = 75.0  # seconds of them that a record has waited when it is sent, by its timestamp
RESUMED = 420.0  # seconds for a scheduler to start, and for one run with a Spark of its own
AT_REST = 120.0  # seconds for the tasks behind the commit
DAG_FILE = """
from lockstep.adapters.folders import load
from lockstep.airflow import dag_for

dag = dag_for(load("drill").pipeline)
"""


@dataclass
class Scene:
    """A pipeline of a real Airflow, with everything that tells its health."""

    house: House
    broker: OwnBroker
    drill: Drill
    environ: dict[str, str]
    exporter: str
    prometheus: Watching

    def send(self, records: int, waited: float = 0.0) -> None:
        """Sends records whose timestamps say that they have waited for so many seconds."""
        producer = Producer({"bootstrap.servers": self.broker.address})
        when = int((time.time() - waited) * 1000)
        for i in range(records):
            producer.produce(self.drill.topic, json.dumps({"id": f"r{i}", "n": i}), f"k{i}", timestamp=when)
        assert producer.flush(20) == 0

    def page(self) -> str:
        """Returns the health on the page of all pipelines."""
        text = self.house.api.page("/lockstep/").text
        return ",".join(re.findall(r'<span class="health [a-z-]+">([a-z ]+)</span>', text))

    def command(self) -> str:
        """Returns the health of `status --json`, or the name of its exit code if it is refused."""
        call = ["lockstep", "status", "drill", "--json"]
        done = subprocess.run(call, env=self.environ, capture_output=True, text=True, check=False)
        return json.loads(done.stdout)["health"] if done.returncode == Exit.DONE else Exit(done.returncode).name

    def pulled(self):
        """Returns a scrape of `metrics --serve`."""
        return values(httpx.get(f"http://{self.exporter}/metrics", timeout=20).text)

    def pulled_of_airflow(self):
        return values(self.house.api.page("/lockstep/metrics").text)

    def told(self) -> dict[str, str]:
        """Returns the health by each way to ask for it."""
        served = {"serve": health(self.pulled(), "drill"), "airflow": health(self.pulled_of_airflow(), "drill")}
        return {"page": self.page(), "command": self.command()} | served

    def until_told(self, state: str, command: str | None = None, seconds: float = TWO_SCHEDULES) -> None:
        """Waits until every way to ask tells this health, for two schedules at most."""
        wanted = {"page": state, "command": command or state, "serve": state, "airflow": state}
        end, last = time.monotonic() + seconds, {}
        while (last := self.told()) != wanted:
            assert time.monotonic() < end, (wanted, last)
            time.sleep(0.5)

    def until_fires(self, alert: str) -> None:
        """Waits until Prometheus fires this alert for both endpoints. A pending alert does not count."""
        both = {self.exporter, self.house.airflow.address.removeprefix("http://")}

        def firing() -> bool:
            found = [each["labels"] for each in self.prometheus.alerts("firing")]
            assert {label.get("pipeline", "drill") for label in found} <= {"drill"}
            return {label["instance"] for label in found if label["alertname"] == alert} == both

        self.prometheus.until(firing, TWO_SCHEDULES)

    def at_rest(self) -> list[str]:
        """Returns what is wrong after upkeep has dropped what the killed attempt had staged."""
        with closing(connect(self.drill.dsn)) as conn:
            reap(conn)
        return self.drill.violations(rest=True)

    def has_a_scheduler(self) -> bool:
        found = airflow.running(self.house.home)
        return bool(found) and "scheduler" in found.parts


@contextmanager
def exporting(home: Path, environ: dict[str, str]):
    """Runs `lockstep metrics --serve`. Yields its address."""
    with (home / "exporter.log").open("w") as log:
        call = ["lockstep", "metrics", "--serve", "0"]
        process = subprocess.Popen(call, env=environ, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        said = process.stdout.readline()
        found = re.search(r"http://([\d.:]+)/metrics", said)
        assert found, (said, (home / "exporter.log").read_text())
        yield found[1]
    finally:
        process.terminate()
        process.wait(30)


def token_of(house: House) -> Path:
    """Writes the token that docs/monitoring has Prometheus use, into a file."""
    login = {"username": house.airflow.user, "password": house.airflow.password}
    answer = httpx.post(f"{house.airflow.address}/auth/token", json=login, timeout=60)
    (file := house.home / "airflow-token").write_text(answer.json()["access_token"])
    return file


@pytest.fixture
def broker(tmp_path):
    made = OwnBroker(tmp_path / "broker")
    yield made
    made.stop()


@pytest.fixture
def scene(servers, broker, tmp_path):
    """Yields a pipeline that runs every minute by its schedule, has no alarm, and has committed what there was."""
    topic = "stopped.v1"
    make_topic(broker.address, topic, 2)
    ours = SimpleNamespace(database=servers.database, drop=servers.drop, kafka=lambda: broker.broker)
    (home := tmp_path / "stopped").mkdir()
    with an_airflow(ours, home) as house:
        place = house.place
        definition = DEFINITION.replace("limits=", f'schedule="{EVERY_MINUTE}", limits=')
        write_folder(home / "written", topic, definition)
        (home / "written" / "pipelines" / "drill").rename(place.pipelines / "drill")
        conn = connect(place.dsn)
        migrate_target(conn, load("drill"))
        conn.close()
        (place.dags / "drill.py").write_text(DAG_FILE)
        wait_for(lambda: "drill" in house.api.dags(), "the DAG is parsed", 300.0)
        # The command line finds this Airflow as it finds the embedded one: by the stack's file.
        stack.write_stack(stack.Stack(home, place.dsn, broker.address))
        environ = dict(os.environ) | {
            "LOCKSTEP_HOME": str(home),
            "LOCKSTEP_DSN": place.dsn,
            "LOCKSTEP_KAFKA": broker.address,
            "LOCKSTEP_PIPELINES": str(place.pipelines),
            "PYTHONUNBUFFERED": "1",
        }
        with exporting(home, environ) as exporter:
            api = house.airflow.address.removeprefix("http://")
            targets = [Target(exporter), Target(api, "/lockstep/metrics", token_of(house))]
            prometheus = Watching(home, targets, hurried_rules(home, "2s"))
            made = Scene(
                house, broker, Drill(place.dsn, broker.address, topic, place.pipelines), environ, exporter, prometheus
            )
            made.send(20)
            assert made.drill.run()["committed"]
            yield made
            made.drill.end()
            prometheus.stop()


def test_a_pipeline_that_is_stopped_in_any_of_four_ways_is_not_well_and_an_alert_fires(scene):
    # Its DAG is paused, as every DAG is when it is new.
    scene.until_told("off")
    scene.until_fires("LockstepOff")

    # Its scheduler is down. Nothing waits, so nothing is late yet.
    airflow.kill(scene.house.airflow, "scheduler")
    scene.house.api.unpause("drill")
    scene.until_told("well")
    assert scene.pulled()["lockstep_behind_after_seconds", "drill"] == TWO_SCHEDULES, "by the schedule, no alarm"
    sent = time.monotonic()
    scene.send(3, WAITED)
    found = scene.pulled()
    assert WAITED <= found["lockstep_oldest_waiting_seconds", "drill"] < TWO_SCHEDULES
    assert (found["lockstep_lag_records", "drill"], health(found, "drill")) == (3, "well")
    scene.until_told("behind")
    assert time.monotonic() - sent > TWO_SCHEDULES - WAITED - 1, "not before two schedules are over"
    assert scene.pulled()["lockstep_oldest_waiting_seconds", "drill"] > TWO_SCHEDULES
    scene.until_fires("LockstepBehind")
    assert not scene.has_a_scheduler(), "nobody started it again"

    # A batch is interrupted: its process is killed, and there is no other to go on.
    assert "killed" in scene.drill.run(fault="stage.done=kill")
    scene.until_told("interrupted")
    assert conditions(scene.pulled(), "drill") == {"interrupted", "behind"}
    scene.until_fires("LockstepInterrupted")

    # The broker is away.
    scene.broker.stop()
    scene.until_told("unknown", command=Exit.AWAY.name)
    assert conditions(scene.pulled(), "drill") == {"unknown", "interrupted"}
    scene.until_fires("LockstepSystemAway")

    # Broker and scheduler come back. A run by the schedule goes on with the batch, and everything is well again.
    scene.broker.start()
    airflow.start(scene.house.home, scene.house.place)
    scene.until_told("well", seconds=RESUMED)
    until = time.monotonic() + AT_REST
    while (left := scene.at_rest()) and time.monotonic() < until:
        time.sleep(0.5)
    assert left == []
    assert scene.drill.ask("select count(*)::int from public.drill") == [(23,)]
    scene.prometheus.until(lambda: scene.prometheus.alerts("firing") == [])
