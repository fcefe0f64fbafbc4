"""Tests that a history run changes a table by the statements that were shown, once another person has approved them."""

from __future__ import annotations

from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from lockstep import Append, Avro, Pipeline
from lockstep.adapters.airflow.names import AirflowException, AirflowFailException, AirflowSkipException
from lockstep.adapters.postgres import connect
from lockstep.airflow.door import RunRefused, as_airflow_errors
from lockstep.airflow.history import asked
from lockstep.airflow.history.approval import RecordedApproval
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.formats.avro import schemas
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.context import Context
from support.fakes.ledger_rows import LedgerRows, SayingBroker, view
from support.fakes.registry import a_record, a_registry
from support.scenes.decision_facts import decided

OLD, NEW = "id string, n int", "id string, n bigint, note string"
COLUMNS = """select attname, format_type(atttypid, atttypmod) from pg_attribute
    where attrelid = 'public.orders'::regclass and attnum > 0 and not starts_with(attname, '_') order by attnum"""
DDL = """create table public.orders (id text, n int, _stream int4 not null, _offset int8 not null, _ordinal int4 not null,
    _batch int8 not null, primary key (_stream, _offset, _ordinal));"""
RUN = "manual__1"
ALICE, BOB = ({"id": each, "name": name} for each, name in (("1", "alice"), ("7", "bob")))
HELD = [("id", "text"), ("n", "integer")]


class Airflow:
    """Airflow's half of a run that asks for changes of a table. `said` are the facts that its tasks have pushed."""

    def __init__(self, at: Context) -> None:
        self.pipeline, self.at, self.schema, self.transform = "orders", at, OLD, None
        self.form: dict[str, object] = {}
        self.said: dict[str, object] = {}
        self.try_number = 1
        self.run = SimpleNamespace(
            run_id=RUN,
            run_type=SimpleNamespace(value="manual"),
            start_date=None,
            clear_number=0,
            data_interval_start=None,
            data_interval_end=None,
            conf={},
            dag_id="orders_history",
            triggering_user_name="alice",
        )

    def context(self) -> dict:
        ti = SimpleNamespace(
            xcom_pull=lambda task_ids, **_: self.said.get("asked") if task_ids == "ask" else None,
            try_number=self.try_number,
        )
        return {"dag_run": self.run, "params": self.form, "ti": ti}

    def folder(self) -> PipelineFolder:
        made = Pipeline("orders", "orders.v1", Avro(self.schema), Append("public.orders"))
        return PipelineFolder(made, Path(), self.transform, None, DDL)

    @contextmanager
    def opened(self, step: str | None = None):
        assert step in {None, "ask"}
        with as_airflow_errors():
            yield self.at

    def ask(self, run: str = RUN, **form: object) -> str | None:
        """Does the first task of a run with this form. Returns the next one."""
        self.run.run_id, self.form = run, {"action": "migrate", "reason": "orders have notes", **form}
        return asked.open_or_decide(self)  # type: ignore[arg-type]

    def respond(self, user: dict, option: str = "Approve") -> object:
        """Shows the changes, and resumes the task `approve` with a response, as Airflow does."""
        task = RecordedApproval(task_id="approve", subject="to be shown", door=self, approvers=("7",))  # type: ignore[arg-type]
        event = {"chosen_options": [option], "params_input": {}, "responded_at": datetime.now(UTC)}
        return task.execute_complete(self.context(), event | {"responded_by_user": user})  # type: ignore[arg-type]


@pytest.fixture
def airflow(database, monkeypatch):
    at = Context(database, SayingBroker(view((0, 9))))
    made = Airflow(at)
    monkeypatch.setattr(asked, "get_current_context", made.context)
    monkeypatch.setattr(asked, "push", made.said.update)
    monkeypatch.setenv("LOCKSTEP_REGISTRY", "")
    with closing(connect(database)) as conn:
        migrate_target(conn, made.folder())
    made.schema = NEW
    with closing(at):
        yield made


@pytest.fixture
def ledger(airflow):
    return LedgerRows(airflow.at.conn)


def digest(airflow) -> str:
    assert airflow.ask(preview=True) is None
    return str(airflow.said["shown"]).split("**")[1]


def test_what_was_shown_and_approved_is_run_once_and_recorded(airflow, ledger):
    shown = digest(airflow)
    assert 'alter column "n" type bigint' in str(airflow.said["shown"]).replace("\\", "")
    assert ledger.ask(COLUMNS) == HELD
    assert airflow.ask("manual__2", approval=True, digest=shown) == "approve"
    subject, body = asked.shown_to_approver(airflow)
    assert subject == "orders: migrate, asked for by alice"
    assert shown in body
    assert "orders have notes" in body

    airflow.respond(BOB)
    assert ledger.ask(COLUMNS) == HELD
    asked.approved(airflow)
    assert ledger.ask(COLUMNS) == [("id", "text"), ("n", "bigint"), ("note", "text")]
    assert decided(ledger) == [
        ("approve", "bob@orders_history", "approved as shown"),
        ("alter", "alice@orders_history", "orders have notes"),
    ]
    assert ledger.ask("select detail ->> 'digest' from lockstep.decision") == [(shown,), (shown,)]
    with pytest.raises(AirflowSkipException, match=r"nothing to do; alice@orders_history at .* ran"):
        asked.approved(airflow)
    airflow.try_number = 2
    asked.approved(airflow)
    assert "nothing to do" in str(airflow.said["decided"]), "an earlier try of this task may have done it"
    assert [kind for kind, _, _ in decided(ledger)] == ["approve", "alter"]
    with pytest.raises(AirflowSkipException, match="table and definition agree"):
        airflow.ask("manual__3", preview=True)


@pytest.mark.parametrize("when", ["asked", "approved", "applied"])
def test_a_digest_that_is_not_the_shown_one_is_refused_at_each_step(airflow, ledger, when):
    shown = digest(airflow)
    if when != "asked":
        assert airflow.ask("manual__2", approval=True, digest=shown) == "approve"
    if when == "applied":
        airflow.respond(BOB)
    airflow.schema = f"{NEW}, colour string"
    acts = {
        "asked": lambda: airflow.ask("manual__2", approval=True, digest=shown),
        "approved": lambda: airflow.respond(BOB),
        "applied": lambda: asked.approved(airflow),
    }
    with pytest.raises(AirflowException, match=f"orders: {shown} is not what is proposed now") as no:
        acts[when]()
    assert "lockstep migrate orders --propose" in str(no.value)
    assert ledger.ask(COLUMNS) == HELD
    assert [kind for kind, _, _ in decided(ledger)] == (["approve"] if when == "applied" else [])


def test_nobody_approves_what_he_asked_for_and_without_an_approval_nothing_is_run(airflow, ledger):
    assert airflow.ask(approval=True, digest=digest(airflow)) == "approve"
    with pytest.raises(AirflowFailException, match="alice asked for it, and another person must approve"):
        airflow.respond(ALICE)
    with pytest.raises(AirflowFailException, match="the ledger holds no approval of this run"):
        asked.approved(airflow)
    airflow.respond(BOB, "Reject")
    assert ledger.ask(COLUMNS) == HELD


def test_an_unsafe_change_is_shown_and_never_run(airflow, ledger):
    airflow.schema = "id int, note string"
    shown = digest(airflow)
    assert "Never run by an approval: public.orders.id is text" in str(airflow.said["shown"]).replace("\\", "")
    assert airflow.ask("manual__2", approval=True, digest=shown) == "approve"
    airflow.respond(BOB)
    asked.approved(airflow)
    assert ledger.ask(COLUMNS) == [*HELD, ("note", "text")]


def test_columns_of_a_transform_are_not_known_here(airflow):
    airflow.transform = "def transform(records):\n    return records\n"
    with pytest.raises(AirflowFailException, match=r"only Spark knows which  Next: lockstep migrate orders --propose"):
        airflow.ask(preview=True)


def test_the_registrys_newest_schema_is_shown_beside_the_changes(airflow, monkeypatch):
    with a_registry() as registry:
        monkeypatch.setenv("LOCKSTEP_REGISTRY", registry.url)
        registry.register("orders.v1-value", a_record(("id", "string"), ("n", "long"), ("channel", "string")))
        assert airflow.ask(preview=True) is None
        said = str(airflow.said["shown"]).replace("\\", "")
        assert "schema id 1: field channel is string and has no column: paste channel string" in said
        assert "field note is gone: new rows hold null" in said
    schemas.schemas.cache_clear()


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({}, "approval: a table is changed once its statements are approved: tick it"),
        ({"approval": True}, "digest: of which changes\\? A preview or lockstep migrate"),
        ({"preview": True, "from_offsets": ["0:1"]}, "from_time, until_time: a table is changed as a whole"),
        ({"preview": True, "partition": 1}, "partition: of migrate the offsets name the partitions"),
        ({"action": "fill", "digest": "0" * 64}, "digest: it names changes of a table, and fill makes none"),
    ],
    ids=["no approval", "no digest", "bounds", "a partition", "another action"],
)
def test_a_form_that_contradicts_itself_is_refused(airflow, ledger, form, why):
    with pytest.raises(RunRefused, match=why):
        airflow.ask(**form)
    assert ledger.ask(COLUMNS) == HELD
