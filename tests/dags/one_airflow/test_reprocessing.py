"""Tests what a backfill does with covered hours, by each of Airflow's reprocess behaviors, in a real Airflow."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from dags.one_airflow.test_history import EACH_HOUR, LONG, History
from support.servers.scheduled import wait_for

pytestmark = pytest.mark.timeout(1000)


class Covered(History):
    """A pipeline whose past hours a run by hand has filled: no interval has a run of the history DAG."""

    def __init__(self, house, name: str, hours: int) -> None:
        house.warm()
        super().__init__(house, name, hours, spark="spark_connect_default")
        self.hours = hours
        assert self.over(self.trigger(action="fill")) == "success"
        assert self.lanes() == {"fill": 1}

    def moment(self, hour: int) -> datetime:
        return self.begin + timedelta(hours=hour)

    def reprocess(self, behavior: str, *hours: int, **conf: Any) -> int:
        """Starts a backfill from the first to the last of these hours, and returns its number."""
        begin, end = self.moment(hours[0]).isoformat(), self.moment(hours[-1]).isoformat()
        asked = {"dag_id": self.dag_id, "from_date": begin, "to_date": end, "reprocess_behavior": behavior}
        number: int = self.api.call("POST", "backfills", asked | ({"dag_run_conf": conf} if conf else {}))["id"]
        return number

    def closed(self, number: int) -> None:
        """Waits for the runs, and ends the backfill. Airflow itself looks each half minute if one is over.

        It starts no run again, also none that is cleared, that belongs to a backfill which was ended this way.
        """
        wait_for(lambda: not self.going_on(), f"the runs are over: {self.states()}", LONG)
        assert set(self.states().values()) <= {"success"}, self.states()
        if not self.api.call("GET", f"backfills/{number}")["completed_at"]:
            self.api.call("PUT", f"backfills/{number}/cancel")

    def reprocessed(self, behavior: str, *hours: int, **conf: Any) -> str:
        """Backfills these hours, waits for the end, and returns the run of the last one."""
        self.closed(self.reprocess(behavior, *hours, **conf))
        return self.run_of(hours[-1])

    def runs(self) -> dict[int, dict[str, Any]]:
        """Returns the runs by their hour."""
        moments = {self.moment(hour): hour for hour in range(self.hours)}
        dated = [(run, run["logical_date"]) for run in self.api.runs(self.dag_id) if run["logical_date"]]
        found = [(moments.get(datetime.fromisoformat(at)), run) for run, at in dated]
        return {hour: run for hour, run in found if hour is not None}

    def run_of(self, hour: int) -> str:
        return str(self.runs()[hour]["dag_run_id"])

    def clears(self) -> dict[int, int]:
        """Returns how many tries `ask` has had after its first, by hour."""
        tries = {
            hour: self.api.tasks(self.dag_id, run["dag_run_id"])["ask"]["try_number"]
            for hour, run in self.runs().items()
        }
        return {hour: number - 1 for hour, number in tries.items()}

    def said(self, run_id: str) -> str:
        """Returns the log of the last try of `ask`."""
        return self.api.log(self.dag_id, run_id, "ask", self.api.tasks(self.dag_id, run_id)["ask"]["try_number"])

    def clear(self, run_id: str, *tasks: str) -> None:
        self.api.call(
            "POST",
            f"dags/{self.dag_id}/clearTaskInstances",
            {"dag_run_id": run_id, "task_ids": list(tasks), "dry_run": False, "only_failed": False},
        )

    def call_it_failed(self, run_id: str) -> None:
        self.api.call("PATCH", f"dags/{self.dag_id}/dagRuns/{run_id}", {"state": "failed"})
        wait_for(lambda: self.states()[run_id] == "failed", "the run has failed")


def test_covered_hours_are_replayed_by_completed_at_once_and_by_failed_where_the_run_failed(house):
    past = Covered(house, "reprocessed", hours=3)
    rows, first = past.rows(), past.batches_of_rows()
    assert rows == 3 * EACH_HOUR

    for behavior, hours in (("none", (0,)), ("failed", (0, 1))):
        run_id = past.reprocessed(behavior, *hours)
        assert set(past.tasks(run_id).values()) == {"skipped"}, "nobody has asked for a replay"
        said = past.said(run_id)
        assert "nothing is left to fill" in said
        assert f"reprocess behavior {behavior}" in said
    assert past.clears() == {0: 0, 1: 0}, "a run that was no failure is not made again"
    assert (past.batches_of_rows(), past.lanes()) == (first, {"fill": 1})

    past.backfilled(past.reprocess("completed", 2))

    run_id = past.run_of(2)
    assert past.tasks(run_id)["work"] == "success"
    assert "reprocess behavior completed" in past.said(run_id)
    assert past.lanes() == {"fill": 1, "replay": 1}
    second = past.batches_of_rows()
    assert (past.rows(), second & first) == (rows, set())

    past.clear(run_id, "work")
    assert past.over(run_id) == "success"
    assert past.batches_of_rows() == second, "work goes on with what the run has asked for, and all of it is done"

    assert past.reprocessed("completed", 2) == run_id
    assert past.lanes() == {"fill": 1, "replay": 2}, "the second time is another wish"

    past.call_it_failed(past.run_of(1))
    past.reprocessed("failed", 0, 1)
    assert past.lanes() == {"fill": 1, "replay": 3}, "the run that failed, and no other"

    clears = past.clears()
    past.reprocessed("none", 0, 2)
    assert (past.clears(), past.lanes()) == (clears, {"fill": 1, "replay": 3}), "no run is made again"
    assert past.rows() == rows
    assert past.live.violations() == []


@pytest.mark.long
def test_a_backfill_that_replays_waits_for_its_approval_and_one_that_only_fills_replays_nothing(house):
    past = Covered(house, "reprocessed_by_approval", hours=2)
    first = past.batches_of_rows()

    number = past.reprocess("completed", 0, approval=True)
    run_id = wait_for(past.going_on, "the run is made")[0]
    shown = past.until_asked(run_id)
    assert "replay, asked for by" in shown
    assert past.batches_of_rows() == first
    past.answer(run_id, "Reject")
    past.closed(number)
    assert (past.tasks(run_id)["approved"], past.batches_of_rows()) == ("skipped", first)

    run_id = past.reprocessed("completed", 1, action="fill")

    assert set(past.tasks(run_id).values()) == {"skipped"}
    assert past.batches_of_rows() == first

    run_id = past.reprocessed("completed", 1, preview=True)
    assert past.api.xcom(past.dag_id, run_id, "rehearse", "difference").keys() == {"replay"}
    assert past.batches_of_rows() == first
