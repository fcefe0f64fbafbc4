"""Tests a run whose steps are one task: seen step by step, tried again wherever it dies, and once each record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockstep.dev.servers import spark_connect
from support.servers.scheduled import RECORDS, wait_for

pytestmark = pytest.mark.timeout(900)
MARK = '{"lockstep": 1, '
STEPS = ("plan", "stage", "validate", "commit", "announce")


def at_once(house, name: str, **more: Any):
    made = house.pipeline(name, tasks="one", **more)
    if not more:
        (house.place.pipelines / name / "transform.py").unlink()
    return made


def facts(house, made, run_id: str, try_number: int, last: str) -> dict[str, dict]:
    """Returns the line of JSON of each step in a try's log, once that of the last step is there."""

    def whole() -> dict[str, dict] | None:
        text = house.api.log(made.name, run_id, "run", try_number)
        lines = [line[line.index(MARK) :] for line in text.splitlines() if MARK in line]
        found = [json.JSONDecoder().raw_decode(line)[0] for line in lines]
        by_step = {document["step"]: document for document in found}
        return by_step if last in by_step else None

    return wait_for(whole, f"the log of try {try_number}")


def events(house, made) -> list[dict]:
    found = house.api.call("GET", "assets/events?limit=100")["asset_events"]
    return [event for event in found if event["source_dag_id"] == made.name]


@pytest.mark.long
def test_one_task_does_all_steps_and_says_what_each_has_done(house):
    drill = at_once(house, "at_once")
    run_id = drill.trigger()

    assert drill.over(run_id) == "success"

    ((batch, token),) = drill.ask("select batch_id, token from lockstep.batch where pipeline = 'at_once'")
    said = facts(house, drill, run_id, 1, "announce")
    assert tuple(said) == STEPS
    assert {said[step]["batch"] for step in STEPS[:-1]} | set(said["announce"]["batches"]) == {batch}
    assert sum(row["written"] for row in said["stage"]["ranges"]) == said["commit"]["rows_written"] == RECORDS
    told = {key: house.api.xcom(drill.name, run_id, "run", key) for key in ("batch", "attempt", "written", "seconds")}
    assert (told["batch"], told["attempt"], told["written"]) == (batch, token, RECORDS)
    assert set(told["seconds"]) == set(STEPS)
    assert len(house.api.xcom(drill.name, run_id, "run", "ranges")) == 2
    assert [(event["extra"]["batch"], event["extra"]["written"]) for event in events(house, drill)] == [
        (batch, RECORDS)
    ]
    assert house.api.links(drill.name, run_id, "run") == {"Batch": f"/lockstep/dags/at_once/batches/{batch}"}
    idle = drill.trigger()
    assert drill.over(idle) == "success"
    assert drill.tasks(idle)["run"] == "skipped"
    assert (drill.batches(), drill.violations()) == ([("committed", 1)], [])


@pytest.mark.long
def test_a_try_behind_the_commit_of_one_task_announces_it(house):
    drill = at_once(house, "died_behind")
    (house.home / "announce.before").touch()
    run_id = drill.trigger()

    assert drill.over(run_id, 300) == "success"

    assert house.api.tasks(drill.name, run_id)["run"]["try_number"] == 2
    assert (drill.batches(), drill.violations()) == ([("committed", 1)], [])
    ((batch,),) = drill.ask("select batch_id from lockstep.batch where pipeline = 'died_behind'")
    assert tuple(facts(house, drill, run_id, 1, "commit")) == STEPS[:-1]
    assert tuple(facts(house, drill, run_id, 2, "announce")) == STEPS[-1:]
    assert [(event["extra"]["batch"], event["extra"]["written"]) for event in events(house, drill)] == [
        (batch, RECORDS)
    ]
    house.api.clear(drill.name, run_id)
    wait_for(lambda: house.api.tasks(drill.name, run_id)["run"]["try_number"] == 3, "the third try")
    assert drill.over(run_id, 300) == "success"
    assert [event["extra"]["batch"] for event in events(house, drill)] == [batch, batch]
    assert (drill.batches(), drill.violations()) == ([("committed", 1)], [])


@pytest.mark.long
def test_one_task_on_a_warm_spark_that_is_killed_before_its_commit_is_tried_again(house):
    server = house.warm()
    drill = at_once(house, "warm_at_once", slow=True, spark="spark_connect_default")
    (house.home / "commit.ledger_written").touch()
    run_id = drill.trigger()
    wait_for(drill.reads, "Spark reads", 90)
    assert house.jvms() == []
    drill.mark.unlink()

    assert drill.over(run_id, 300) == "success"

    assert house.api.tasks(drill.name, run_id)["run"]["try_number"] == 2
    assert (drill.batches(), drill.violations()) == ([("committed", 2)], [])
    spark_connect.kill(server)


@pytest.mark.long
def test_one_task_starts_a_spark_of_its_own_where_a_transform_needs_one_and_ends_it(house):
    drill = at_once(house, "local_at_once", slow=True)
    drill.mark.unlink()
    run_id = drill.trigger()

    assert drill.over(run_id, 300) == "success"

    assert house.api.tasks(drill.name, run_id)["run"]["try_number"] == 1
    assert (drill.batches(), drill.violations()) == ([("committed", 1)], [])
    ((application,),) = drill.ask(
        "select spark_application_id from lockstep.attempt join lockstep.batch using (batch_id) where pipeline = %s",
        drill.name,
    )
    assert application.startswith("local-")
    wait_for(lambda: house.jvms() == [], "its JVM ends")


@pytest.mark.long
def test_one_task_fails_at_once_where_a_batch_is_refused(house):
    drill = at_once(house, "refused_at_once")
    suite = [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": 9}}]
    folder = house.place.pipelines / drill.name
    (folder / "expectations.json").write_text(json.dumps({"name": drill.name, "expectations": suite}))
    run_id = drill.trigger()

    assert drill.over(run_id, 300) == "failed"

    assert house.api.tasks(drill.name, run_id)["run"]["try_number"] == 1
    assert facts(house, drill, run_id, 1, "validate")["validate"]["verdict"]["success"] is False
    assert drill.ask("select count(*) from public.refused_at_once") == [(0,)]
    assert house.api.links(drill.name, run_id, "run")["Batch"].startswith("/lockstep/dags/refused_at_once/batches/")
