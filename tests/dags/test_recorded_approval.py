"""Tests what the task `approve` writes into the ledger from Airflow's record of a response, and what goes on from it."""

from __future__ import annotations

from contextlib import closing, contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from lockstep.adapters.airflow.names import AirflowFailException
from lockstep.airflow.door import as_airflow_errors
from lockstep.airflow.history import asked
from lockstep.airflow.history.approval import RecordedApproval
from lockstep.steps.context import Context
from support.fakes.ledger_rows import LedgerRows, SayingBroker, view
from support.scenes.decision_facts import ORDERS, decided, position

RUN = "manual__1"
FORM = {"action": "accept-loss", "reason": "retention was too short", "approval": True}
FORM |= {"from_offsets": ["0:0"], "until_offsets": ["0:4"]}
DETAIL = """select detail - 'run' - 'previews' - 'lost' - 'topic' from lockstep.decision
    where kind in ('approve', 'refuse-approval')"""
ALICE, BOB, EVE = ({"id": each, "name": name} for each, name in (("1", "alice"), ("7", "bob"), ("9", "eve")))


class Airflow:
    """Airflow's half of a run that asks to give up four deleted offsets. `xcoms` are by task."""

    def __init__(self, at: Context) -> None:
        self.pipeline = "orders"
        self.at = at
        self.run = SimpleNamespace(
            run_id=RUN,
            run_type=SimpleNamespace(value="manual"),
            start_date=None,
            clear_number=0,
            data_interval_start=None,
            data_interval_end=None,
            conf=FORM,
            dag_id="orders_history",
            triggering_user_name="alice",
        )
        self.xcoms = {"ask": {"key": RUN}}
        self.form = FORM

    def context(self) -> dict:
        ti = SimpleNamespace(try_number=1, xcom_pull=lambda task_ids, **_: self.xcoms.get(task_ids))
        return {"dag_run": self.run, "params": self.form, "ti": ti}

    def folder(self) -> SimpleNamespace:
        return SimpleNamespace(pipeline=ORDERS, content_hash=lambda: "c1")

    @contextmanager
    def opened(self, step: str | None = None):
        assert step in {None, "ask"}
        with as_airflow_errors():
            yield self.at

    def respond(self, user: dict | None, option: str = "Approve", named: tuple[str, ...] = ("7",)) -> object:
        """Resumes the task `approve` with a response, as Airflow does."""
        task = RecordedApproval(task_id="approve", subject="to be shown", door=self, approvers=named)  # type: ignore[arg-type]
        event = {"chosen_options": [option], "params_input": {}, "responded_at": datetime.now(UTC)}
        return task.execute_complete(self.context(), event | {"responded_by_user": user})  # type: ignore[arg-type]


@pytest.fixture
def airflow(database, monkeypatch):
    at = Context(database, SayingBroker(view((4, 9))))
    made = Airflow(at)
    monkeypatch.setattr(asked, "get_current_context", made.context)
    monkeypatch.setattr(asked, "push", lambda **_: None)
    with closing(at):
        yield made


@pytest.fixture
def ledger(airflow):
    rows = LedgerRows(airflow.at.conn)
    rows.stream(0)
    return rows


def test_a_named_persons_approval_is_in_the_ledger_before_the_task_goes_on(airflow, ledger):
    airflow.respond(BOB)
    assert decided(ledger) == [("approve", "bob@orders_history", "approved as shown")]
    assert ledger.ask(DETAIL) == [({"action": "accept-loss", "asker": "alice", "approver": BOB},)]
    assert ledger.ask("select detail -> 'lost' from lockstep.decision") == [({"0": [0, 4]},)]

    asked.approved(airflow)
    assert decided(ledger)[1:] == [("accept-loss", "alice@orders_history", "retention was too short")]
    assert position(ledger, 1) == 4


@pytest.mark.parametrize(
    ("user", "who", "why"),
    [
        (EVE, "eve", "eve is not among the approvers of the pipeline: 7"),
        (ALICE, "alice", "alice asked for it, and another person must approve"),
        (None, "nobody", "Airflow has no record of a user who approved"),
    ],
    ids=["not named", "the asker", "nobody"],
)
def test_an_approval_that_does_not_count_is_recorded_as_refused(airflow, ledger, user, who, why):
    with pytest.raises(AirflowFailException, match=f"the approval is refused: {why}"):
        airflow.respond(user)
    assert decided(ledger) == [("refuse-approval", f"{who}@orders_history", why)]
    assert ledger.ask(DETAIL) == [({"action": "accept-loss", "asker": "alice", "approver": user},)]

    with pytest.raises(AirflowFailException, match="the ledger holds no approval of this run"):
        asked.approved(airflow)
    assert position(ledger, 1) == 0


def test_an_approval_of_a_run_without_a_known_asker_is_recorded_as_refused(airflow, ledger):
    airflow.run.triggering_user_name = None
    with pytest.raises(AirflowFailException, match="Airflow does not say who asked"):
        airflow.respond(BOB)
    assert [kind for kind, _, _ in decided(ledger)] == ["refuse-approval"]


def test_a_rejection_approves_nothing(airflow, ledger):
    airflow.respond(BOB, "Reject")
    assert decided(ledger) == []


def test_an_approval_of_another_run_is_not_this_ones(airflow, ledger):
    airflow.respond(BOB)
    airflow.run.run_id, airflow.xcoms = "manual__2", {"ask": {"key": RUN}, "approve": {"responded_by_user": BOB}}
    with pytest.raises(AirflowFailException, match="is no key of run manual__2"):
        asked.approved(airflow)
    airflow.xcoms["ask"] = {"key": "manual__2"}
    with pytest.raises(AirflowFailException, match="the ledger holds no approval of this run"):
        asked.approved(airflow)
    assert [kind for kind, _, _ in decided(ledger)] == ["approve", "refuse-approval"]
    claimed = "select detail -> 'claimed' from lockstep.decision where kind = 'refuse-approval'"
    assert ledger.ask(claimed) == [(BOB,)]
    assert position(ledger, 1) == 0


def test_an_approval_counts_for_the_offsets_that_were_shown_and_no_others(airflow, ledger):
    """A run that was deleted and triggered again under its id asks for something else."""
    airflow.respond(BOB)
    airflow.xcoms["approve"] = {"responded_by_user": BOB}
    airflow.form = FORM | {"until_offsets": ["0:3"]}

    with pytest.raises(AirflowFailException, match="the ledger holds no approval of this run"):
        asked.approved(airflow)
    assert [kind for kind, _, _ in decided(ledger)] == ["approve", "refuse-approval"]
    assert position(ledger, 1) == 0

    airflow.respond(BOB)
    asked.approved(airflow)
    assert [kind for kind, _, _ in decided(ledger)] == ["approve", "refuse-approval", "approve", "accept-loss"]
    assert position(ledger, 1) == 3
