"""Tests a pipeline's history in a real Airflow: backfills beside the live DAG, approved replays, losses."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lockstep.adapters.airflow.names import HAS_RETRY_POLICIES
from lockstep.core.errors import Refusal
from lockstep.dev.servers.airflow_settings import REVIEWER, USER, for_commands
from support.servers.scheduled import OVER, Scheduled, wait_for

EACH_HOUR = 20  # records
READING = 8.0  # seconds to read before an answer: Airflow loses one that comes before the asking process has ended
LONG = 800.0  # three JVMs at once take their time on two busy cores
pytestmark = pytest.mark.timeout(1000)


class History:
    """A pipeline whose records lie in past hours, before its start. Its live DAG has begun behind them."""

    def __init__(
        self, house, name: str, hours: int, spark: str = "spark_default", history: str = "None", *, planned: bool = True
    ) -> None:
        now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        self.begin, self.end = now - timedelta(hours=hours + 3), now - timedelta(hours=3)
        step = timedelta(hours=1) / EACH_HOUR
        past = [self.begin + i * step for i in range(hours * EACH_HOUR)]
        self.house, self.api, self.dag_id = house, house.api, f"{name}_history"
        self.live: Scheduled = house.pipeline(name, past=past, spark=spark, history=history)
        if planned:
            assert self.live.over(self.live.trigger(), LONG) == "success"
            assert self.rows() == 0, "the live lane begins behind the past"

    def backfill(self, reprocess: str = "none", **conf: Any) -> int:
        """Starts a backfill over all hours, three at once, and waits until Airflow says that it is over."""
        asked = {
            "dag_id": self.dag_id,
            "from_date": self.begin.isoformat(),
            "to_date": (self.end - timedelta(hours=1)).isoformat(),
            "max_active_runs": 3,
            "reprocess_behavior": reprocess,
        }
        number: int = self.api.call("POST", "backfills", asked | ({"dag_run_conf": conf} if conf else {}))["id"]
        return number

    def backfill_by_command(self, *options: str) -> int:
        """Starts a backfill as docs/airflow.md says, with the environment of `lockstep dev env` and no other."""
        place = self.house.place
        environ = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
        environ |= for_commands(self.house.airflow.folder, place.dags, place.plugins)
        begin, end = self.begin.isoformat(), (self.end - timedelta(hours=1)).isoformat()
        door = str(Path(sys.executable).with_name("airflow"))
        asked = ["--dag-id", self.dag_id, "--from-date", begin, "--to-date", end, "--max-active-runs", "3", *options]
        done = subprocess.run(
            [door, "backfill", "create", *asked], env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        known = self.api.call("GET", f"backfills?dag_id={self.dag_id}&limit=100")["backfills"]
        return max(each["id"] for each in known)

    def backfilled(self, number: int) -> None:
        def over() -> bool:
            return bool(self.api.call("GET", f"backfills/{number}")["completed_at"]) and not self.going_on()

        wait_for(over, f"the backfill is over: {self.states()}", LONG)
        assert set(self.states().values()) <= {"success"}, self.states()

    def going_on(self) -> list[str]:
        return [run for run, state in self.states().items() if state not in OVER]

    def states(self) -> dict[str, str]:
        runs = self.api.call("GET", f"dags/{self.dag_id}/dagRuns?limit=100")["dag_runs"]
        return {run["dag_run_id"]: run["state"] for run in runs if run["run_type"] != "scheduled"}

    def trigger(self, **form: Any) -> str:
        return self.api.trigger(self.dag_id, **form)

    def tasks(self, run_id: str) -> dict[str, str]:
        return {name: task["state"] for name, task in self.api.tasks(self.dag_id, run_id).items()}

    def over(self, run_id: str) -> str:
        wait_for(lambda: self.states()[run_id] in OVER, f"{run_id} is over: {self.tasks(run_id)}", LONG)
        return self.states()[run_id]

    def until_asked(self, run_id: str) -> str:
        """Waits until an approval is requested, and returns the shown text."""
        wait_for(lambda: self.tasks(run_id)["approve"] == "awaiting_input", "approval is asked for", LONG)
        detail = self.api.call("GET", f"dags/{self.dag_id}/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails")
        return f"{detail['subject']}\n{detail['body']}"

    def answer(self, run_id: str, option: str, **fields: str) -> None:
        """Answers as the second user, and does so again if Airflow asks again."""
        reviewer = self.house.airflow.reviewer()
        path = f"dags/{self.dag_id}/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"

        def answered() -> bool:
            if self.tasks(run_id)["approve"] == "awaiting_input":
                time.sleep(READING)
                with suppress(Refusal):  # it was answered this very moment
                    reviewer.call("PATCH", path, {"chosen_options": [option], "params_input": fields})
            return self.tasks(run_id)["approve"] == "success"

        wait_for(answered, f"{option} is heard", LONG)

    def rows(self) -> int:
        return self.live.ask(f"select count(*) from public.{self.live.name}")[0][0]

    def batches_of_rows(self) -> set[int]:
        return {batch for (batch,) in self.live.ask(f"select distinct _batch from public.{self.live.name}")}

    def lanes(self) -> dict[str, int]:
        query = "select lane, count(*) from lockstep.batch where pipeline = %s and state = 'committed' group by 1"
        return dict(self.live.ask(query, self.live.name))

    def decisions(self) -> list[tuple]:
        query = "select kind, who, why from lockstep.decision where pipeline = %s order by decision_id"
        return self.live.ask(query, self.live.name)


def prove_a_backfill(house, name: str, hours: int, live_batches: int, **more: str) -> History:
    """Backfills past hours, three at once, while the live DAG continues.

    Every record lands once, and a second backfill adds nothing.
    """
    past = History(house, name, hours, **more)  # type: ignore[arg-type]
    number = past.backfill()
    for _ in range(live_batches):
        past.live.send(10)
        assert past.live.over(past.live.trigger(), LONG) == "success"
    past.backfilled(number)

    assert past.rows() == hours * EACH_HOUR + live_batches * 10
    assert past.lanes() == {"fill": hours, "live": live_batches}
    assert past.live.violations() == []
    owners = past.live.ask(
        "select distinct dag_id from lockstep.attempt join lockstep.batch using (batch_id)"
        " where pipeline = %s and lane = 'fill'",
        name,
    )
    assert owners == [(past.dag_id,)]

    before = past.batches_of_rows()
    past.backfilled(past.backfill())
    assert past.lanes() == {"fill": hours, "live": live_batches}
    assert past.batches_of_rows() == before
    return past


def fills_no_more(past: History) -> None:
    """Checks that reprocessing that may only fill finds nothing to do."""
    rows, lanes = past.batches_of_rows(), past.lanes()
    conf = ("--reprocess-behavior", "completed", "--dag-run-conf", '{"action": "fill"}')
    past.backfilled(past.backfill_by_command(*conf))
    assert (past.batches_of_rows(), past.lanes()) == (rows, lanes)
    for run_id in past.states():
        assert set(past.tasks(run_id).values()) == {"skipped"}, "Spark is not started where nothing is to be done"


def test_hours_are_backfilled_beside_the_live_dag_and_a_second_time_changes_nothing(house):
    house.warm()
    past = prove_a_backfill(house, "two_hours", hours=2, live_batches=1, spark="spark_connect_default")
    if HAS_RETRY_POLICIES:  # Airflow before 3.3 reprocesses a run with the conf that it had
        fills_no_more(past)
    assert past.live.ask("select distinct who from lockstep.request where pipeline = 'two_hours'") == [
        (f"{USER}@{past.dag_id}",)
    ]


@pytest.mark.long
@pytest.mark.timeout(6000)
def test_a_day_of_hours_is_backfilled_beside_the_live_dag_and_reprocessing_replaces_its_rows(house):
    house.warm()
    past = prove_a_backfill(house, "whole_day", hours=24, live_batches=4, spark="spark_connect_default")
    live = past.live.ask(
        "select distinct _batch from public.whole_day join lockstep.batch on batch_id = _batch where lane = 'live'"
    )
    before = past.batches_of_rows()

    past.backfilled(past.backfill("completed"))

    assert past.rows() == 24 * EACH_HOUR + 40
    assert past.batches_of_rows() & before == {batch for (batch,) in live}, "every row of the past is a new batch's"
    assert past.lanes() == {"fill": 24, "live": 4, "replay": 24}
    assert past.live.violations() == []
    fills_no_more(past)


@pytest.mark.long
def test_a_contradiction_by_rest_fails_at_once_in_one_line_and_the_command_airflow_finds_this_airflow(house):
    past = History(house, "quick", hours=1, planned=False)
    run_id = past.trigger(action="skip")
    assert past.over(run_id) == "failed"
    task = past.api.tasks(past.dag_id, run_id)["ask"]
    assert (task["state"], task["try_number"]) == ("failed", 1)
    log = past.api.log(past.dag_id, run_id, "ask", 1)
    assert "reason: skip is a decision: say why" in log
    assert "Task failed with exception" not in log, "no frames stand before the sentence"
    assert past.tasks(run_id)["work"] == "upstream_failed"

    number = past.backfill_by_command()

    made = past.api.call("GET", f"backfills/{number}")
    assert (made["dag_id"], made["reprocess_behavior"]) == (past.dag_id, "none")


@pytest.mark.long
def test_what_contradicts_itself_is_refused_by_the_form_or_in_one_line_by_the_first_task(house):
    past = History(house, "contradicted", hours=1)
    for field, value in (
        ("action", "rewind"),
        ("from_time", "tomorrow"),
        ("until_offsets", ["zero"]),
        ("partition", -1),
    ):
        with pytest.raises(Refusal, match="400"):
            past.trigger(**{field: value})
    for form, said in (
        ({"action": "skip"}, "reason: skip is a decision: say why"),
        ({"approval": True}, "reason: an approval is asked for: say why"),
        (
            {"from_time": "2026-05-02T00:00:00Z", "until_time": "2026-05-01T00:00:00Z"},
            "until_time: 2026-05-01T00:00:00+00:00 is not after",
        ),
    ):
        run_id = past.trigger(**form)

        assert past.over(run_id) == "failed"

        task = past.api.tasks(past.dag_id, run_id)["ask"]
        assert (task["state"], task["try_number"]) == ("failed", 1)
        log = past.api.log(past.dag_id, run_id, "ask", 1)
        assert said in log
        assert "Task failed with exception" not in log, "no frames stand before the sentence"


@pytest.mark.long
def test_a_loss_is_accepted_once_somebody_has_approved_it_and_not_when_he_has_rejected_it(house):
    past = History(house, "lost", hours=1)
    past.live.send(30)
    ((position,),) = past.live.ask("select position from lockstep.stream where pipeline = 'lost' and partition = 0")
    admin = AdminClient({"bootstrap.servers": house.place.kafka})
    for future in admin.delete_records([TopicPartition(past.live.topic, 0, position + 4)]).values():
        future.result(20)
    form = {
        "action": "accept-loss",
        "reason": "retention was too short",
        "approval": True,
        "from_offsets": [f"0:{position}"],
        "until_offsets": [f"0:{position + 4}"],
    }
    rejected, accepted = past.trigger(**form), past.trigger(**form)
    shown = past.until_asked(rejected)
    assert f"| {position} | {position + 4} | {position} | {position + 4} |" in shown
    past.until_asked(accepted)

    past.answer(rejected, "Reject")
    assert past.over(rejected) == "success"
    assert (past.tasks(rejected)["approved"], past.decisions()) == ("skipped", [])

    past.answer(accepted, "Approve", reason="seen")
    assert past.over(accepted) == "success"
    assert past.decisions() == [
        ("approve", f"{REVIEWER}@{past.dag_id}", "seen"),
        ("accept-loss", f"{USER}@{past.dag_id}", "retention was too short"),
    ]
    assert past.live.over(past.live.trigger(), LONG) == "success"
    assert past.live.violations() == []


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_replay_is_shown_approved_and_done_and_a_rejected_one_changes_nothing(house):
    past = History(house, "approved", hours=2)
    past.backfilled(past.backfill())
    transform = house.place.pipelines / "approved" / "transform.py"
    transform.write_text(
        "def transform(records):\n    return records.withColumn('n', (records.n + 1000).cast('int'))\n"
    )
    hour = {"from_time": past.begin.isoformat(), "until_time": (past.begin + timedelta(hours=1)).isoformat()}
    before = past.live.ask("select * from public.approved order by _stream, _offset")

    shown_only = past.trigger(action="replay", preview=True, **hour)
    assert past.over(shown_only) == "success"
    assert past.api.xcom(past.dag_id, shown_only, "rehearse", "difference")["replay"]["changed"] == EACH_HOUR
    assert past.live.ask("select * from public.approved order by _stream, _offset") == before
    link = past.api.links(past.dag_id, shown_only, "rehearse")["Difference"]
    tab = past.api.page(link).text
    assert "Preview: replay" in tab
    assert f'<td>public.approved</td><td class="n">0</td><td class="n">{EACH_HOUR}</td>' in tab

    rejected = past.trigger(action="replay", approval=True, reason="n was too small", **hour)
    shown = past.until_asked(rejected)
    assert f"| public.approved | 0 | {EACH_HOUR} | 0 | 0 |" in shown
    assert '"n": 1000' not in shown.replace("\\", "")
    assert "n <b>1000</b>" in past.api.page(past.api.links(past.dag_id, rejected, "rehearse")["Difference"]).text
    xcoms = [past.api.xcom(past.dag_id, rejected, "rehearse", key) for key in ("shown", "difference")]
    assert "samples" not in str(xcoms)
    assert "_offset" not in str(xcoms)
    past.answer(rejected, "Reject")
    assert past.over(rejected) == "success"
    assert past.live.ask("select * from public.approved order by _stream, _offset") == before
    assert past.tasks(rejected) | {"ask": "success"} == {
        "ask": "success",
        "rehearse": "success",
        "approve": "success",
        "approved": "skipped",
        "work": "skipped",
        "announce": "skipped",
    }

    asked = past.trigger(action="replay", approval=True, reason="n was too small", **hour)
    past.until_asked(asked)
    past.answer(asked, "Approve")
    assert past.over(asked) == "success"
    after = past.live.ask("select * from public.approved order by _stream, _offset")
    assert sum(old[1] + 1000 == new[1] for old, new in zip(before, after, strict=True)) == EACH_HOUR
    assert past.live.violations() == []
    assert past.decisions() == [("approve", f"{REVIEWER}@{past.dag_id}", "approved as shown")]

    batch = past.api.xcom(past.dag_id, asked, "work", "batch")
    link = past.api.links(past.dag_id, asked, "work")["Batch"]
    assert link == f"/lockstep/dags/{past.dag_id}/batches/{batch}"
    assert f"approved, batch {batch}" in past.api.page(link).text
    events = past.api.call("GET", "assets/events?limit=100")["asset_events"]
    (event,) = [e for e in events if e["source_run_id"] == asked]
    assert (event["extra"]["batches"], event["extra"]["delivered"]) == ([batch], EACH_HOUR)

    past.api.clear(past.dag_id, asked)  # a wish of its own: shown and approved once more
    wait_for(lambda: past.tasks(asked)["ask"] != "success", "the run begins again")
    past.until_asked(asked)
    past.answer(asked, "Approve")
    wait_for(lambda: past.states()[asked] in OVER, "the cleared run is over", LONG)
    assert past.api.xcom(past.dag_id, asked, "work", "batch") > batch
    assert past.live.violations() == []
