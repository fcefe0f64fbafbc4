"""Does what the tasks of a history run do, on the drill's pipeline, without Airflow."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lockstep.core.changes.person import Person
from lockstep.core.planning.decisions import Caller, TaskRun
from lockstep.core.planning.history import HistoryRun, RequestForm, read_form
from lockstep.steps.requests import history
from lockstep.steps.requests.run_key import key_of_run
from lockstep.steps.requests.work import preview_requests, work


class Run:
    """One run of the drill's history, as its tasks do it."""

    def __init__(
        self, here, name: str = "manual__1", clear_number: int = 0, started: datetime | None = None, **form: Any
    ) -> None:
        self.here = here
        self.run = HistoryRun(name, "manual", clear_number, None, {"reason": "a test"} | form, started=started)

    @property
    def asked(self) -> RequestForm:
        return read_form(self.run)

    @property
    def key(self) -> str:
        return key_of_run(self.here.at.conn, "drill", self.run)

    def person(self, who: str = "ada") -> Person:
        return Person(f"{who}@drill_history", "a test", self.key)

    def ask(self):
        here = self.here
        return history.open_run_requests(here.at, here.folder, self.asked, self.person(), datetime.now(UTC))

    def _half(self, what, try_number: int = 1):
        here = self.here
        task_run = TaskRun("drill_history", self.run.run_id, "ti", try_number)
        caller = Caller(task_run.owner, task_run=task_run, in_one_process=True)
        return what(here.at, here.engine, here.folder, self.key, caller, lambda _: None)

    def work(self):
        return self._half(work)

    def rehearse(self):
        return self._half(preview_requests)

    def approve(self, who: str = "bob"):
        history.approve(
            self.here.at.conn, self.here.folder, history.Approval(self.asked, "alice", None), self.person(who)
        )
        return history.open_approved(self.here.at, self.here.folder, self.person())

    def decide(self) -> list[str]:
        """Takes the decision, and returns what a task logs. `changed` then says if it has changed anything."""
        here = self.here
        done = history.decide_history(here.at, here.folder.pipeline, self.asked, self.person(), datetime.now(UTC))
        self.changed = done.changed
        return done.lines

    def shown(self):
        return history.run_requests(self.here.at.conn, "drill", self.person(), preview=True)
