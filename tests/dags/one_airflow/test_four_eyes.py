"""Tests that an approval is Airflow's own record, by another person than the asker.

Anything else is refused and recorded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from dags.one_airflow.conftest import MALLORY
from dags.one_airflow.test_history import LONG, READING, History
from lockstep.core.errors import Refusal
from lockstep.dev.servers.airflow_api import AirflowApi
from support.servers.scheduled import OVER, wait_for

pytestmark = pytest.mark.timeout(1000)


@pytest.fixture(scope="module")
def past(house):
    return Loss(house, "forged")


class Loss(History):
    """A pipeline with deleted offsets that a user wants to give up.

    Its history names the users who may approve, or no user.
    """

    def __init__(self, house, name: str, history: str = "None") -> None:
        self.house, self.api, self.dag_id = house, house.api, f"{name}_history"
        self.live = house.pipeline(name, past=[datetime.now(UTC)] * 4, history=history)
        servers = {"LOCKSTEP_DSN": house.place.dsn, "LOCKSTEP_KAFKA": house.place.kafka}
        command = [str(Path(sys.executable).with_name("lockstep")), "run", name]
        subprocess.run(command, env=os.environ | servers, check=True)  # a stream and its position, without a JVM
        self.live.send(30)
        self.at = self.position()
        lost = [TopicPartition(self.live.topic, 0, self.at + 4)]
        admin = AdminClient({"bootstrap.servers": house.place.kafka})  # its futures end with it
        for future in admin.delete_records(lost).values():
            future.result(20)

    def position(self) -> int:
        query = "select position from lockstep.stream where pipeline = %s and partition = 0"
        return self.live.ask(query, self.live.name)[0][0]

    def user(self, name: str) -> AirflowApi:
        passwords = json.loads((self.house.airflow.folder / "passwords.json").read_text())
        return AirflowApi(self.house.airflow.address, name, passwords[name])

    def ask(self, user: str, **more: Any) -> str:
        """Requests to give up four offsets that retention has deleted."""
        form = {
            "action": "accept-loss",
            "reason": "mine",
            "approval": True,
            "from_offsets": [f"0:{self.at}"],
            "until_offsets": [f"0:{self.at + 4}"],
        }
        return self.user(user).trigger(self.dag_id, **(form | more))

    def respond(self, user: str, run_id: str) -> None:
        """Approves, and does so again if Airflow asks again."""

        def answered() -> bool:
            if self.tasks(run_id)["approve"] == "awaiting_input":
                time.sleep(READING)
                with suppress(Refusal):  # it was answered this very moment
                    self.respond_once(user, run_id)
            return self.tasks(run_id)["approve"] in {"success", "failed"}

        wait_for(answered, f"{user} has answered", LONG)

    def respond_once(self, user: str, run_id: str) -> None:
        path = f"dags/{self.dag_id}/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
        self.user(user).call("PATCH", path, {"chosen_options": ["Approve"], "params_input": {"reason": "fine"}})

    def tried(self, run_id: str) -> list[tuple[str, list[str]]]:
        """Returns who has responded, by Airflow's audit log, and the chosen options. The oldest comes first."""
        asked = f"eventLogs?event=update_hitl_detail&dag_id={self.dag_id}&run_id={quote(run_id)}&order_by=id"
        found = self.api.call("GET", asked)["event_logs"]
        return [(each["owner"], json.loads(each["extra"])["chosen_options"]) for each in found]

    def refused(self, run_id: str) -> tuple:
        """Returns who, why and the identities of the one decision of a run."""
        query = (
            "select kind, who, why, detail - 'run' from lockstep.decision where pipeline = %s and detail ->> 'run' = %s"
        )
        ((kind, who, why, detail),) = self.live.ask(query, self.live.name, run_id)
        assert kind == "refuse-approval"
        return who, why, detail

    def ended(self, run_id: str) -> str:
        wait_for(lambda: self.states()[run_id] in OVER, f"{run_id} is over: {self.tasks(run_id)}", LONG)
        return self.states()[run_id]

    def losses(self) -> list[tuple]:
        return self.live.ask(
            "select 1 from lockstep.decision where pipeline = %s and kind = 'accept-loss'", self.live.name
        )


def test_an_approval_that_only_an_xcom_tells_of_is_refused_and_recorded(past):
    run_id = past.ask(MALLORY)
    past.until_asked(run_id)
    user, task = past.user(MALLORY), f"dags/{past.dag_id}/dagRuns/{run_id}/taskInstances/approve"
    ceo = {"id": "ceo", "name": "ceo"}
    told = {
        "chosen_options": ["Approve"],
        "params_input": {"reason": "fine"},
        "responded_by_user": ceo,
    }
    user.call("POST", f"{task}/xcomEntries", {"key": "return_value", "value": told, "map_index": -1})
    user.call("PATCH", task, {"new_state": "success"})

    assert past.ended(run_id) == "failed"

    assert past.losses() == []
    who, why, detail = past.refused(run_id)
    assert who == f"nobody@{past.dag_id}"
    assert "no approval of this run" in why
    assert (detail["asker"], detail["approver"], detail["claimed"]) == (MALLORY, None, ceo)


@pytest.mark.long
def test_who_has_asked_cannot_approve(past):
    run_id = past.ask(MALLORY)
    past.until_asked(run_id)
    past.respond(MALLORY, run_id)

    assert past.ended(run_id) == "failed"

    assert past.losses() == []
    who, why, detail = past.refused(run_id)
    assert who == f"{MALLORY}@{past.dag_id}"
    assert why == f"{MALLORY} asked for it, and another person must approve"
    assert (detail["asker"], detail["approver"]) == (MALLORY, {"id": MALLORY, "name": MALLORY})


def test_the_approver_reads_what_the_ledger_says_and_not_a_forged_xcom(past):
    run_id = past.ask(MALLORY)
    wait_for(lambda: past.tasks(run_id)["ask"] == "success", "it is asked", LONG)
    path = f"dags/{past.dag_id}/dagRuns/{run_id}/taskInstances/ask/xcomEntries"
    past.user(MALLORY).call("PATCH", f"{path}/shown", {"value": "nothing to see here", "map_index": -1})
    shown = past.until_asked(run_id)
    assert "mine" in shown
    assert "would be recorded as **lost**" in shown
    assert f"| {past.at} | {past.at + 4} |" in shown
    assert "nothing to see" not in shown
    past.respond("reviewer", run_id)

    assert past.ended(run_id) == "success"

    found = past.live.ask(
        "select kind, who, detail -> 'asker', detail -> 'approver' ->> 'id' from lockstep.decision"
        " where pipeline = %s and detail ->> 'run' = %s order by 1",
        past.live.name,
        run_id,
    )
    assert found == [
        ("accept-loss", f"{MALLORY}@{past.dag_id}", None, None),
        ("approve", f"reviewer@{past.dag_id}", MALLORY, "reviewer"),
    ]


@pytest.mark.long
def test_only_a_named_approver_is_let_in_and_nothing_goes_on_without_one(house):
    past = Loss(house, "named", history='{"approvers": ("reviewer",)}')
    hasty = past.ask("admin", approval=False)
    assert past.ended(hasty) == "failed"
    assert "waits for one of reviewer" in past.api.log(past.dag_id, hasty, "ask", 1)

    run_id = past.ask("admin")
    past.until_asked(run_id)
    with pytest.raises(Refusal, match="403"):
        past.respond_once(MALLORY, run_id)
    time.sleep(READING)
    assert past.tasks(run_id)["approve"] == "awaiting_input"
    assert past.tried(run_id) == [(MALLORY, ["Approve"])]
    past.respond("reviewer", run_id)

    assert past.ended(run_id) == "success"
    assert len(past.losses()) == 1
    assert {who for who, _ in past.tried(run_id)} == {MALLORY, "reviewer"}
    approved = "select who from lockstep.decision where pipeline = %s and kind = 'approve'"
    assert past.live.ask(approved, past.live.name) == [(f"reviewer@{past.dag_id}",)]
