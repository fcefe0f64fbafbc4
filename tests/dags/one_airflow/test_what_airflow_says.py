"""Tests what a real Airflow says of its DAGs.

A paused one is off: on the page, in the metrics, and for the command line next to it. The logs of a run's tasks have lines
for people, a line of JSON, and nothing of libraries. A pipeline's module sees none of Airflow's secrets in any of them.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from dags.one_airflow.test_one_task import STEPS
from lockstep.core.errors import Refusal
from lockstep.dev.servers import processes
from lockstep.dev.servers.airflow_api import paused
from lockstep.dev.servers.stack import ServerState, Stack, write_stack
from support.oracles.exposed import conditions, health, values
from support.oracles.spark_events import applications
from support.scenes.authors_code import CANARY, assert_sees_nothing, sights
from support.scenes.command_line import CommandLine
from support.servers.scheduled import RECORDS, wait_for

pytestmark = pytest.mark.timeout(900)
MARK = '{"lockstep": 1, '
SEEN = "seen.jsonl"  # in the home of the house
LONG = 400.0
COUNTS = ("delivered", "written", "rejected", "filtered")
WARNS: dict[str, Any] = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "n", "max_value": 99},
    "severity": "warning",
}
HOLDS = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}


def pipeline(house, name: str, *expectations: dict):
    """Makes a pipeline with 150 good records and one bad one, and without a transform."""
    made = house.pipeline(name)
    folder = house.place.pipelines / name
    (folder / "transform.py").unlink()
    suite = {"name": name, "expectations": list(expectations)}
    (folder / "expectations.json").write_text(json.dumps(suite))
    producer = Producer({"bootstrap.servers": house.place.kafka})
    producer.produce(made.topic, b"no JSON", partition=0)
    assert producer.flush(20) == 0
    return made


def log_of(made, run_id: str, task: str) -> str:
    """Returns a task's log, once its last lines are there."""

    def whole() -> str | None:
        try:
            text = made.house.api.log(made.name, run_id, task, 1)
        except Refusal:
            return None
        return text if MARK in text else None

    return wait_for(whole, f"the log of {task}")


def facts(text: str) -> dict:
    (line,) = [line[line.index(MARK) :] for line in text.splitlines() if MARK in line]
    found, _ = json.JSONDecoder().raw_decode(line)
    return found


def sums(document: dict) -> dict[str, int]:
    return {name: sum(row[name] for row in document["ranges"]) for name in COUNTS}


def test_a_paused_dag_is_off_until_it_is_switched_on(house, monkeypatch, capsys):
    house.pipeline("switched")
    house.api.unpause("switched", paused=True)

    assert paused(house.api)["switched"] is True
    answer = house.api.page("/lockstep/metrics")
    assert answer.status_code == 200, answer.text
    found = values(answer.text)
    assert (found["lockstep_up", "ledger"], found["lockstep_up", "kafka"]) == (1, 1)
    assert conditions(found, "switched") == {"off", "not planned yet"}
    assert "off: its DAG is paused in Airflow" in house.api.page("/lockstep/").text
    anonymous = httpx.get(f"{house.airflow.address}/lockstep/metrics")
    assert anonymous.status_code == 401
    assert "switched" not in anonymous.text

    home = house.home / "project"
    home.mkdir()
    lockstep = CommandLine(monkeypatch, capsys, home)
    us = processes.observe(house.airflow.parts["api-server"].pid)
    write_stack(Stack(house.home, house.place.dsn, house.place.kafka, airflow=ServerState(house.airflow.port, us)))
    lockstep.environ(LOCKSTEP_HOME=str(house.home), LOCKSTEP_PIPELINES=str(house.place.pipelines))
    document = lockstep("status", "switched", "--json").document
    assert (document["dag_paused"], document["health"]) == (True, "not planned yet")
    assert [condition["state"] for condition in document["conditions"]] == ["not planned yet", "off"]
    assert "off: its DAG is paused in Airflow" in lockstep("status").out
    assert "off" in conditions(values(lockstep("metrics").out), "switched")

    lockstep.environ(LOCKSTEP_DSN=f"{house.place.dsn}?connect_timeout=9")
    document = lockstep("status", "switched", "--json").document
    assert document["dag_paused"] is None, "the embedded Airflow is not known to be this ledger's"
    assert [condition["state"] for condition in document["conditions"]] == ["not planned yet"]

    house.api.unpause("switched")
    wait_for(lambda: "off" not in conditions(values(house.api.page("/lockstep/metrics").text), "switched"), "it is on")
    assert health(values(house.api.page("/lockstep/metrics").text), "switched") == "not planned yet"


@pytest.fixture(scope="module")
def spoken(house):
    """Returns a pipeline whose module writes down what it can read, and the id of a run that has succeeded."""
    drill = pipeline(house, "spoken", HOLDS, WARNS)
    source = house.place.pipelines / "spoken" / "__init__.py"
    source.write_text(source.read_text() + CANARY.format(seen=str(house.home / SEEN)))
    run_id = drill.trigger()
    assert drill.over(run_id, LONG) == "success"
    return drill, run_id


def test_no_task_shows_a_module_its_secrets(house, spoken):
    drill, _ = spoken
    secrets = {"AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"}
    found = sights(house.home / SEEN)
    for sight in found:
        assert_sees_nothing(sight, house.home / SEEN, "a task, or the DAG file")
        assert not secrets & sight["environ"].keys()
        assert drill.house.place.dsn not in str(sight)
    assert len({sight["parent"] for sight in found}) >= len(STEPS), "each task's process, and the DAG file's"
    assert drill.batches() == [("committed", 1)]


def test_each_task_of_a_run_says_what_it_did_to_people_and_to_machines(house, spoken):
    drill, run_id = spoken
    batch = int(drill.ask("select max(batch_id) from lockstep.batch where pipeline = 'spoken'")[0][0])
    page = f"{house.airflow.address}/lockstep/dags/spoken/batches/{batch}"
    logs = {task: log_of(drill, run_id, task) for task in STEPS}
    said = {task: facts(text) for task, text in logs.items()}

    for task, document in said.items():
        assert (document["step"], document["pipeline"]) == (task, "spoken")
    for task in ("plan", "stage", "validate", "commit"):
        assert (said[task]["batch"], said[task]["page"]) == (batch, page)
        assert f"page: {page}" in logs[task]
    assert house.api.page(page.removeprefix(house.airflow.address)).status_code == 200

    assert said["plan"]["because"]["text"] == f"all {RECORDS + 1} waiting offsets"
    assert f"because: all {RECORDS + 1} waiting offsets" in logs["plan"]
    assert not any(name in row for row in said["plan"]["ranges"] for name in COUNTS)
    whole = {"delivered": RECORDS + 1, "written": RECORDS, "rejected": 1, "filtered": 0}
    assert (said["stage"]["state"], sums(said["stage"])) == ("staged", whole)
    named = drill.ask("select spark_application_id from lockstep.attempt where dag_id = 'spoken'")
    assert named == [(application,) for application in applications(house.home / "events", "lockstep spoken")]
    assert [(said["stage"]["spark_application_id"],)] == named
    assert (said["commit"]["state"], sums(said["commit"])) == ("committed", whole)
    assert (said["commit"]["rows_written"], said["commit"]["rows_rejected"]) == (RECORDS, 1)
    assert said["commit"]["seconds"].keys() == {"stage", "validate", "commit", "total"}
    assert f"committed  {RECORDS} written, 1 rejected" in logs["commit"]
    for row in said["commit"]["ranges"]:
        cells = [str(row[name]) for name in COUNTS]
        place = f"spoken-{row['partition']}"
        (line,) = [line for line in logs["commit"].splitlines() if place in line and "{" not in line]
        assert line.split()[-len(cells) :] == cells

    assert said["validate"]["verdict"]["success"] is True
    assert "the verdict passes: 1 of 2 expectations hold" in logs["validate"]
    assert f"warns: {WARNS['type']}(n): {RECORDS - 100} rows" in logs["validate"]
    assert "Skipping registering" not in logs["validate"]
    assert "great_expectations" not in logs["validate"]
    assert "Calculating Metrics" not in logs["validate"]

    assert (said["announce"]["batches"], said["announce"]["lag_records"]) == ([batch], 0)
    assert said["announce"]["assets"] == ["lockstep://public.spoken/"]
    assert said["announce"]["openlineage"] is False
    assert "OpenLineage is not active" not in logs["announce"]
    assert drill.violations() == []


@pytest.mark.long
def test_a_refused_batch_is_explained_by_its_validation(house):
    drill = pipeline(house, "refused", HOLDS, WARNS | {"severity": "critical"})
    run_id = drill.trigger()
    assert drill.over(run_id, LONG) == "failed"
    text = log_of(drill, run_id, "validate")
    verdict = facts(text)["verdict"]
    assert verdict["success"] is False
    assert [(each["says"], each["failing"]) for each in verdict["expectations"]] == [
        ("fails", RECORDS - 100),
        ("holds", 0),
    ]
    assert f"fails: {WARNS['type']}(n): {RECORDS - 100} rows" in text
    assert drill.ask("select count(*) from public.refused") == [(0,)]
