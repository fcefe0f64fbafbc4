"""Runs the world's steps one at a time, in this process, so that a test may act between two of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psycopg2

from lockstep.core.errors import Refusal
from lockstep.core.planning.bounds import AtOffsets
from lockstep.core.planning.decisions import Caller, Resume, Start
from lockstep.core.states import Lane
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import Planned, plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.context import Context
from lockstep.steps.requests import requests
from lockstep.steps.requests.plan_request import plan_request
from simulation.log import SayingLog
from simulation.world import ME, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lockstep.core.pipeline.guarantees import Guarantee
    from lockstep.core.staging import AttemptId

COMMITTED = "committed"


def told(act: Callable[[], object]) -> str:
    """Returns the outcome that a caller is told: `committed`, the refusal, or the database's error."""
    try:
        act()
    except (Refusal, psycopg2.Error) as error:
        return f"{type(error).__name__}: {error}"
    return COMMITTED


class Scene(World):
    """A world with a connection that is kept. `me` is the actor."""

    def __init__(self, dsn: str, home: Path, *, kind: str = "appended", guarantee: Guarantee | None = None) -> None:
        super().__init__(dsn, home, kind=kind, guarantee=guarantee)
        self.at = Context(dsn, SayingLog(self.log))
        self.other = Context(dsn, SayingLog(self.log))

    def plan(self, owner: str = "me") -> Planned:
        return plan(self.at.conn, self.at.broker, self.folder, Caller(owner), datetime.now(UTC))

    def asked(self, lane: str, begin: dict[int, int], end: dict[int, int] | None = None) -> int | None:
        wanted = requests.NewRequest(Lane(lane), AtOffsets(begin), end and AtOffsets(end))  # type: ignore[arg-type]
        asked = requests.open_request(self.at.conn, self.at.broker, self.folder, wanted, ME, datetime.now(UTC))
        return asked.request_id if asked else None

    def plan_request(self, request_id: int, owner: str = "me") -> Planned:
        return plan_request(self.at.conn, self.at.broker, self.folder, request_id, Caller(owner))

    def staged(self, planned: Planned, owner: str = "me") -> AttemptId:
        caller = Caller(owner, take_over=True)
        return stage(self.at, self._engine(), self.folder, planned.batch_id, caller)

    def validated(self, planned: Planned, owner: str = "me") -> AttemptId:
        attempt = self.staged(planned, owner)
        validate(self.at, self.folder, attempt)
        return attempt

    def validate(self, attempt: AttemptId) -> None:
        validate(self.at, self.folder, attempt)

    def commit(self, attempt: AttemptId) -> None:
        commit(self.at, self.folder, attempt)

    def done(self) -> None:
        """Does one live batch, from plan to commit."""
        self.commit(self.validated(self.plan()))

    def on(self, planned: Planned) -> str:
        """Continues with the planned batch. Returns the answer if there was none."""
        if not isinstance(planned.decision, Start | Resume):
            return repr(planned.decision)
        return told(lambda: self.commit(self.validated(planned)))

    def rows(self) -> list[tuple]:
        return self.ask("select id, n, _stream, _offset from public.house order by _stream, _offset")

    def end(self) -> None:
        for each in (self.at, self.other):
            each.close()
        self.close()
