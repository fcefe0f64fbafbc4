"""Tests the DAG of a fleet: each record once, a failure that stops no other, and a task that dies on the way."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.core.planning.decisions import Caller, Start, TaskRun
from lockstep.steps.batch.plan import plan
from lockstep.steps.context import Context
from support.servers.scheduled import OVER, PIPELINE, RECORDS, TARGET, wait_for

if TYPE_CHECKING:
    from support.servers.scheduled import Scheduled

pytestmark = pytest.mark.timeout(900)
FILE = """
from datetime import timedelta

from lockstep.airflow import fleet_dag

dag = fleet_dag(
    __file__, {dag!r}, only=lambda p: p.name.startswith({dag!r}), schedule=None, in_turn=3, is_paused_upon_creation=False,
    default_args={{"retry_delay": timedelta(seconds=3)}},
)
"""
CONSUMER = """
from airflow.sdk import DAG, task

from lockstep.adapters.folders import load
from lockstep.airflow import asset_of

ASSET = asset_of(load({name!r}).pipeline)
with DAG("after_{name}", schedule=[ASSET], is_paused_upon_creation=False):

    @task
    def read(triggering_asset_events=None):
        return [event.extra["written"] for event in triggering_asset_events[ASSET]]

    read()
"""
VALUES = "select id, n, _offset from public.{} order by n"


class Run:
    """One run of a fleet's DAG."""

    def __init__(self, house, dag_id: str) -> None:
        self.api, self.dag_id = house.api, dag_id
        self.id = self.api.trigger(dag_id)

        def state() -> str | None:
            found = {run["dag_run_id"]: run["state"] for run in self.api.runs(dag_id)}[self.id]
            return found if found in OVER else None

        self.state = wait_for(state, f"{dag_id} {self.id} is over", 300)

    def tasks(self) -> list[tuple[str, str, str, int]]:
        """Returns task, title, state and tries of each mapped task instance."""
        found = self.api.call("GET", f"dags/{self.dag_id}/dagRuns/{self.id}/taskInstances")["task_instances"]
        each = [(t["task_id"], t["rendered_map_index"], t["state"], t["try_number"]) for t in found]
        return sorted(task for task in each if task[1])

    def states(self) -> dict[str, str]:
        """Returns the states of the tasks."""
        return {name: task["state"] for name, task in self.api.tasks(self.dag_id, self.id).items()}


def fleet(house, dag_id: str, *words: str) -> list[Scheduled]:
    made = [house.pipeline(f"{dag_id}_{word}", plain=(PIPELINE, TARGET)) for word in words]
    (house.place.dags / f"{dag_id}.py").write_text(FILE.format(dag=dag_id))
    wait_for(lambda: dag_id in house.api.dags(), "the fleet's DAG is parsed", 120)
    return made


def events(house, dag_id: str) -> list[tuple[str, int, int]]:
    """Returns table, batch and written rows of each event of the fleet."""
    found = house.api.call("GET", "assets/events?limit=100")["asset_events"]
    ours = [e for e in found if e["source_dag_id"] == dag_id]
    return sorted((e["uri"], e["extra"]["batch"], e["extra"]["written"]) for e in ours)


def is_whole(made: Scheduled, records: int = RECORDS, attempts: int = 1) -> None:
    """Asserts that the table holds each record once, with the values that were sent."""
    rows = made.ask(VALUES.format(made.name))
    assert sorted((key, n) for key, n, _ in rows) == sorted((f"r{n}", n) for n in range(records)), made.name
    assert (made.batches(), made.violations()) == ([("committed", attempts)], []), made.name


@pytest.mark.long
def test_each_pipeline_with_work_commits_and_a_failed_one_fails_alone(house):
    good, broken, held, last = fleet(house, "shops", "a", "broken", "held", "z")
    text = (house.place.dags / f"{good.name}.py").parent / f"after_{good.name}.py"
    text.write_text(CONSUMER.format(name=good.name))
    wait_for(lambda: f"after_{good.name}" in house.api.dags(), "the consumer is parsed", 120)
    place = house.place.pipelines / broken.name / "__init__.py"
    place.write_text(place.read_text().replace("topic=", "topics="))
    at = Context(house.place.dsn, Broker(house.place.kafka))
    another = TaskRun(held.name, "another run", "1", 1)
    caller = Caller(str(another.owner), "another run", task_run=another)
    assert isinstance(plan(at.conn, at.broker, load(held.name), caller, datetime.now(UTC)).decision, Start)

    run = Run(house, "shops")

    assert run.state == "failed"
    assert run.tasks() == [
        ("alone", broken.name, "failed", 1),
        ("work", f"{good.name} and 2 more", "success", 1),
    ]
    for each in (good, last):
        is_whole(each)
    assert held.ask("select count(*) from public.shops_held") == [(0,)]
    assert (held.batches(), broken.batches()) == ([("planned", 0)], [])
    batches = {
        each.name: each.ask("select batch_id from lockstep.batch where pipeline = %s", each.name)[0][0]
        for each in (good, last)
    }
    told = [(f"lockstep://public.{name}/", batch, RECORDS) for name, batch in batches.items()]
    assert events(house, "shops") == sorted(told)
    consumer = wait_for(
        lambda: [r for r in house.api.runs(f"after_{good.name}") if r["state"] in OVER], "the consumer", 60
    )
    assert house.api.xcom(f"after_{good.name}", consumer[0]["dag_run_id"], "read") == [RECORDS]
    done = _done(house, run)
    assert {name: (facts["batch"], facts["written"]) for name, facts in done.items()} == {
        name: (batch, RECORDS) for name, batch in batches.items()
    }

    place.write_text(place.read_text().replace("topics=", "topic="))
    again = Run(house, "shops")

    assert (again.state, [task[2] for task in again.tasks() if task[0] == "work"]) == ("success", ["success"])
    is_whole(broken)
    assert held.batches() == [("planned", 0)], "the run of its own DAG holds it"
    idle = Run(house, "shops")
    assert (idle.state, idle.states()) == (
        "success",
        {"look": "success", "work": "skipped", "left": "skipped", "alone": "skipped"},
    )
    at.close()


@pytest.mark.long
def test_a_task_that_dies_leaves_each_of_its_pipelines_to_a_task_of_its_own(house):
    made = fleet(house, "dying", "a", "b")
    (house.home / "announce.before").touch()

    run = Run(house, "dying")

    assert run.state == "success"
    assert run.tasks() == [
        ("alone", made[0].name, "success", 1),
        ("alone", made[1].name, "success", 1),
        ("work", f"{made[0].name} and 1 more", "success", 2),
    ]
    for each in made:
        is_whole(each)
    batches = [each.ask("select batch_id from lockstep.batch where pipeline = %s", each.name)[0][0] for each in made]
    assert events(house, "dying") == sorted(
        (f"lockstep://public.{each.name}/", batch, RECORDS) for each, batch in zip(made, batches, strict=True)
    )


def _done(house, run: Run) -> dict[str, Any]:
    path = f"dags/{run.dag_id}/dagRuns/{run.id}/taskInstances/work/xcomEntries/done?deserialize=true&map_index=0"
    return house.api.call("GET", path)["value"]
