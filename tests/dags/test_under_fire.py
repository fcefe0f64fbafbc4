"""Tests kills and clicks under Airflow: every record lands once, and no JVM stays behind."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

import httpx
import psycopg2
import pytest

from lockstep.dev.servers import airflow, spark_connect
from lockstep.dev.servers.airflow_settings import secrets_of
from support.oracles.canary import CommandLines, Environments, tables_holding
from support.servers.scheduled import Scheduled, an_airflow, kill, wait_for

# A dead scheduler's tasks are noticed in seconds, not in minutes. A scheduler that is slow on a busy machine is alive.
IMPATIENT = {
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "1",
}
POINTS = ("commit.ledger_written", "commit.done_unacknowledged")
NO_JVM = 60.0
CANARIES: dict[str, Any] = {
    what: f"canary-{what}-{secrets.token_hex(8)}" for what in ("warehouse", "registry", "variable", "targets")
}


class Metrics:
    """A receiver of Airflow's metrics."""

    def __init__(self) -> None:
        self.door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.door.bind(("127.0.0.1", 0))
        self.door.settimeout(0)

    def settings(self) -> dict[str, str]:
        return {
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_PORT": str(self.door.getsockname()[1]),
            "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
            "AIRFLOW__METRICS__METRICS_ALLOW_LIST": "lockstep",
        }

    def since_last_asked(self) -> dict[str, str]:
        """Returns the last value of each metric since the last call, steps by their name."""
        found = {}
        with suppress(BlockingIOError):
            while True:
                name, _, value = self.door.recv(65_536).decode().partition(":")
                name, *tags = name.removeprefix("airflow.").split(",")
                step = next((tag.removeprefix("step=") for tag in tags if tag.startswith("step=")), "")
                found[f"{name} {step}".strip()] = value.partition("|")[0]
        return found


@pytest.fixture(scope="module")
def metrics():
    made = Metrics()
    yield made
    made.door.close()


@pytest.fixture(scope="module")
def house(servers, tmp_path_factory, metrics):
    home = tmp_path_factory.mktemp("house")
    faults = " ".join(f"{point}=kill@{home / point}" for point in POINTS)
    lineage = {"type": "file", "log_file_path": str(home / "lineage.json"), "append": True}
    more = {"LOCKSTEP_FAULT": faults, "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(lineage)}
    warehouse = {
        "conn_type": "postgres",
        "host": "127.0.0.1",
        "port": 9,
        "login": "w",
        "password": CANARIES["warehouse"],
    }
    registry = {"conn_type": "http", "host": "127.0.0.1", "login": "r", "password": CANARIES["registry"]}
    more |= {
        "AIRFLOW_CONN_LOCKSTEP_STORE_WAREHOUSE": json.dumps(warehouse),
        "AIRFLOW_CONN_LOCKSTEP_REGISTRY": json.dumps(registry),
        "AIRFLOW_VAR_DISCREET": CANARIES["variable"],
        "LOCKSTEP_TARGETS_DSN": f"postgresql://author:{CANARIES['targets']}@127.0.0.1:9/ledger",
    }
    with an_airflow(servers, home, more=IMPATIENT | metrics.settings() | more) as made:
        yield made


@pytest.mark.long
def test_a_task_killed_while_spark_reads_is_tried_again_and_its_jvm_ends(house):
    drill = house.pipeline("killed_in_stage", slow=True)
    run_id = drill.trigger()
    task, orphans = drill.until_reading(), house.jvms()
    kill(task)
    drill.mark.unlink()

    wait_for(lambda: not set(orphans) & set(house.jvms()), "the orphaned JVM ends", NO_JVM)
    assert drill.over(run_id) == "success"
    assert drill.batches() == [("committed", 2)]
    assert drill.violations() == []
    assert house.jvms() == []


@pytest.mark.long
def test_on_a_warm_spark_a_run_starts_no_jvm_and_a_server_that_dies_costs_a_try(house):
    server = house.warm()
    drill = house.pipeline("on_a_warm_spark", slow=True, spark="spark_connect_default")
    run_id = drill.trigger()
    wait_for(drill.reads, "Spark reads", 90)
    assert house.jvms() == []

    spark_connect.kill(server)
    drill.mark.unlink()
    server = house.warm()

    assert drill.over(run_id) == "success"
    assert house.api.tasks(drill.name, run_id)["stage"]["try_number"] > 1
    (batch,) = drill.batches()
    assert batch[0] == "committed"
    assert batch[1] > 1
    assert drill.violations() == []
    spark_connect.kill(server)


@pytest.mark.parametrize("point", [pytest.param(POINTS[0], marks=pytest.mark.long), POINTS[1]])
def test_a_task_killed_in_commit_is_tried_again_and_commits_once(house, point):
    drill = house.pipeline(point.replace(".", "_"))
    (house.home / point).touch()

    run_id = drill.trigger()

    assert drill.over(run_id) == "success"
    assert not (house.home / point).exists(), "the fault was never reached"
    assert house.api.tasks(drill.name, run_id)["commit"]["try_number"] == 2
    assert drill.batches() == [("committed", 1)]
    assert drill.violations() == []


@contextmanager
def at_its_worst(house, run_id):
    """Stops the scheduler while it holds the lock on a run. Its workers still hold the lock when it is dead."""
    running = airflow.running(house.home)
    scheduler = running.parts["scheduler"].pid
    metadata = psycopg2.connect(house.place.metadata_dsn)
    metadata.autocommit = True

    def stopped_in_time() -> bool:
        os.kill(scheduler, signal.SIGSTOP)
        with metadata.cursor() as cur:
            cur.execute("select 1 from dag_run where run_id = %s for update skip locked", (run_id,))
            free = cur.fetchall()
        os.kill(scheduler, signal.SIGCONT) if free else None
        return not free

    wait_for(stopped_in_time, "the scheduler looks at the run", pause=0.01)
    yield running
    metadata.close()


@pytest.mark.long
def test_a_scheduler_killed_while_spark_reads_harms_nothing(house):
    drill = house.pipeline("without_scheduler", slow=True)
    run_id = drill.trigger()
    drill.until_reading()
    with at_its_worst(house, run_id) as running:
        airflow.kill(running, "scheduler")
    drill.mark.unlink()
    house.airflow = airflow.start(house.home, house.place)

    assert drill.over(run_id, seconds=200) == "success"
    assert [state for state, _ in drill.batches()] == ["committed"]
    assert drill.violations() == []
    wait_for(lambda: not house.jvms(), "no JVM is left", NO_JVM)


@pytest.mark.long
def test_a_task_marked_failed_while_spark_reads_leaves_no_jvm_and_its_batch_to_the_next_run(house):
    drill = house.pipeline("marked_failed", slow=True)
    run_id = drill.trigger()
    drill.until_reading()
    drill.mark.unlink()

    house.api.mark(drill.name, run_id, "stage", "failed")

    assert drill.over(run_id) == "failed"
    wait_for(lambda: not house.jvms(), "no JVM is left", NO_JVM)
    assert drill.over(drill.trigger(take_over=True)) == "success"
    assert drill.batches() == [("committed", 2)]
    assert drill.violations() == []


@pytest.mark.long
def test_two_runs_at_once_share_the_records_and_no_offset(house):
    drill = house.pipeline("twice")
    with ThreadPoolExecutor() as both:
        runs = list(both.map(lambda _: drill.trigger(), range(2)))

    assert [drill.over(run_id) for run_id in runs] == ["success", "success"]
    planned = sorted(drill.tasks(run_id)["plan"] for run_id in runs)
    assert planned in (["skipped", "success"], ["success", "success"])
    assert {state for state, _ in drill.batches()} == {"committed"}
    assert drill.violations() == []


@dataclass
class Healthy:
    """A run that nothing has disturbed, and what Airflow's metrics said of it."""

    drill: Scheduled
    run_id: str
    measured: dict[str, str]


@pytest.fixture(scope="module")
def seen(house):
    """Returns the processes that were seen while `healthy` and `blocked` ran: command lines and environments."""
    return CommandLines(), Environments(f"AIRFLOW_HOME={house.airflow.folder}")


@pytest.fixture(scope="module")
def healthy(house, metrics, seen):
    """Returns one run for all tests that look at it. Its Python workers live long enough to be seen."""
    drill = house.pipeline("witness", slow=True, pause=0.05)
    metrics.since_last_asked()  # what earlier runs have sent
    lines, environments = seen
    with lines, environments:
        run_id = drill.trigger()
        assert drill.over(run_id) == "success"
    return Healthy(drill, run_id, metrics.since_last_asked())


@pytest.fixture(scope="module")
def blocked(healthy, seen):
    """Returns the next run of that pipeline, over another log. The tests behind this one find that log."""
    healthy.drill.recreate_topic()
    lines, environments = seen
    with lines, environments:
        run_id = healthy.drill.trigger()
        assert healthy.drill.over(run_id) == "failed"
    return run_id


def test_what_a_run_did_stands_on_its_tasks_pages_and_in_its_assets_event(house, healthy):
    drill, run_id = healthy.drill, healthy.run_id
    (batch_id, token), *_ = drill.ask(
        "select batch_id, token from lockstep.batch where pipeline = %s and state = 'committed'", drill.name
    )

    assert house.api.xcom(drill.name, run_id, "plan") == batch_id
    ranges = house.api.xcom(drill.name, run_id, "plan", "ranges")
    assert (
        sum(int(until) - int(first) for first, until in (re.findall(r"\[(\d+), (\d+)\)", r)[0] for r in ranges)) == 150
    )
    assert house.api.xcom(drill.name, run_id, "stage", "attempt") == token
    assert house.api.xcom(drill.name, run_id, "commit", "written") == 150

    (event,) = [
        e for e in house.api.call("GET", "assets/events?limit=100")["asset_events"] if e["source_dag_id"] == drill.name
    ]
    assert event["extra"]["batch"] == batch_id
    assert (event["extra"]["delivered"], event["extra"]["written"], event["extra"]["rejected"]) == (150, 150, 0)
    assert {r["topic"] for r in event["extra"]["ranges"]} == {drill.topic}

    def told() -> list[dict]:
        lines = (house.home / "lineage.json").read_text().splitlines() if (house.home / "lineage.json").exists() else []
        facets = [json.loads(line) for line in lines if "lockstep_offsets" in line]
        return [e for e in facets if e["run"]["facets"]["lockstep_offsets"]["pipeline"] == drill.name]

    (lineage,) = wait_for(told, "the OpenLineage event")
    facet = lineage["run"]["facets"]["lockstep_offsets"]
    assert (facet["batch"], facet["attempt"], facet["lane"]) == (batch_id, token, "live")
    assert facet["_schemaURL"] == "urn:lockstep:openlineage:OffsetsRunFacet:1-0-0"
    assert [d["name"] for d in lineage["inputs"]] == [drill.topic]
    assert lineage["outputs"][0]["name"].endswith(".public.witness")


def test_what_a_run_did_is_measured_through_airflows_metrics(healthy):
    found = healthy.measured
    assert found["lockstep.rows"] == "150"
    assert found["lockstep.rejects"] == "0"
    assert (found["lockstep.lag_records"], found["lockstep.lag_seconds"]) == ("0", "0.0")
    assert 0 < int(found["lockstep.headroom_records"]) < 150, "the partition with the fewest records behind it"
    for step in ("plan", "stage", "validate", "commit"):
        assert float(found[f"lockstep.step {step}"]) > 0


def test_the_page_of_a_batch_is_linked_and_for_those_who_may_read_the_dag(house, healthy):
    drill, run_id = healthy.drill, healthy.run_id
    house.pipeline("neighbour")
    batch_id = house.api.xcom(drill.name, run_id, "plan")
    path = f"/lockstep/dags/witness/batches/{batch_id}"

    assert house.api.links(drill.name, run_id, "commit") == {"Batch": path}
    assert httpx.get(house.airflow.address + path).status_code == 401
    shown = house.api.page(path)
    assert shown.status_code == 200
    assert f"witness, batch {batch_id}" in shown.text
    assert f"{drill.topic}-1" in shown.text
    assert house.api.page(path.replace("witness", "neighbour")).status_code == 404, (
        "another DAG's permission does not open it"
    )
    for docs in ("/lockstep/docs", "/lockstep/openapi.json"):
        assert house.api.page(docs).status_code == 404


def test_a_cleared_run_does_nothing_again(house, healthy):
    drill, run_id = healthy.drill, healthy.run_id
    committed = drill.ask("select max(closed_at) from lockstep.attempt")

    house.api.clear(drill.name, run_id)

    wait_for(lambda: drill.tasks(run_id)["plan"] == "skipped", "plan is skipped")
    assert drill.over(run_id) == "success"
    assert set(drill.tasks(run_id).values()) == {"skipped"}
    assert drill.ask("select max(closed_at) from lockstep.attempt") == committed
    assert drill.batches() == [("committed", 1)]
    assert drill.violations() == []


def test_what_a_person_must_decide_fails_at_once_with_the_command_to_type(house, healthy, blocked):
    assert house.api.tasks(healthy.drill.name, blocked)["plan"]["try_number"] == 1
    assert "lockstep retire witness --reason" in house.api.log(healthy.drill.name, blocked, "plan", 1)


@pytest.mark.usefixtures("blocked")
def test_no_secret_is_where_it_is_not_needed(house, healthy, seen):
    drill, run_id = healthy.drill, healthy.run_id
    lines, environments = seen
    folder = house.airflow.folder
    hidden = asdict(secrets_of(folder)) | CANARIES | {"ledger": house.place.dsn.split(":")[2].split("@")[0]}
    hidden |= {"spark": spark_connect.token_of(house.home)}
    ((batch_id,),) = drill.ask("select batch_id from lockstep.batch where pipeline = 'witness' and state = 'committed'")
    paths = ("batches", f"batches/{batch_id}", "coverage", "record?partition=0&offset=0")
    pages = {path: house.api.page(f"/lockstep/dags/witness/{path}") for path in paths}
    assert {path: page.status_code for path, page in pages.items()} == dict.fromkeys(paths, 200)
    logs = [file for file in [*folder.rglob("*.log"), *(folder / "logs").rglob("*")] if file.is_file()]
    assert len(logs) > len(drill.tasks(run_id))
    of_drivers = [each for each in environments.seen if "airflow" not in each.replace(str(folder), "")]
    assert [each for each in of_drivers if "stage_batch.py" in each]
    assert [each for each in of_drivers if "worker_daemon" in each or "pyspark.daemon" in each]

    shown = {
        name: [
            *lines.holding(secret),
            *(each for each in environments.holding(secret) if each in of_drivers and name != "ledger"),
            *(file for file in logs if secret in file.read_text(errors="replace")),
            *tables_holding(secret, house.place.metadata_dsn, "public"),
            *tables_holding(secret, house.place.dsn, "public", "lockstep", "lockstep_staging"),
            *(path for path, page in pages.items() if secret in page.text),
        ]
        for name, secret in hidden.items()
    }
    assert {name: places for name, places in shown.items() if places} == {}
    assert environments.holding(hidden["jwt"]), "the servers of Airflow have it: the test sees environments"
    for name in ("jwt", "api", "warehouse", "registry"):
        assert not [each for each in environments.holding(hidden[name]) if "dag-processor" in each], name
