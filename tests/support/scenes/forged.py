"""Runs a drill into targets of every kind, step by step, with forgeries between two steps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.planning.decisions import Caller
from lockstep.core.staging import STAGING_SCHEMA, AttemptId
from lockstep.ledger.proof.verify_contents import CONTENTS_AS_COMMITTED, REJECTS
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.proof.verify import verify
from support.scenes.here import Here

if TYPE_CHECKING:
    from lockstep.core.proof.verification import PromiseCheck

COORDINATES = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
APPENDED = f"create table public.drill (id {{text}}, n int, {COORDINATES}, primary key (_stream, _offset, _ordinal));"
BY_BATCH = f"""create table public.drill (id text, n int, {COORDINATES}, primary key (_stream, _offset, _ordinal, _batch))
    partition by list (_batch);"""
KEYED = f"create table public.drill (id text primary key, n int, {COORDINATES});"
TOTALS = f"create table public.drill (id text primary key, total numeric, records int8, {COORDINATES});"
BESIDE = "create table public.beside (like public.drill including all);"
ACCUMULATED = 'Accumulate("public.drill", key=("id",), totals=(Sum("total", "n"), Count("records")))'
KINDS = {
    "append": ('Append("public.drill")', APPENDED.format(text="text")),
    "by batch": ('Append("public.drill")', BY_BATCH),
    "upsert": ('Upsert("public.drill", key=("id",))', KEYED),
    "accumulate": (ACCUMULATED, TOTALS),
    "several": (
        '(Append("public.drill", "one"), Append("public.beside", "other"))',
        APPENDED.format(text="text") + BESIDE,
    ),
}


def is_of_contents(check: PromiseCheck) -> bool:
    return check.name.startswith(CONTENTS_AS_COMMITTED) or check.name == REJECTS


class Contents(Here):
    """A drill whose steps are run one at a time."""

    def staged(self) -> AttemptId:
        planned = plan(self.at.conn, self.at.broker, self.folder, Caller("me"), datetime.now(UTC))
        return stage(self.at, self.engine, self.folder, planned.batch_id, Caller("me"))

    def validated(self) -> AttemptId:
        attempt = self.staged()
        validate(self.at, self.folder, attempt)
        return attempt

    def commit(self, attempt: AttemptId) -> None:
        commit(self.at, self.folder, attempt)

    def finish(self, attempt: AttemptId, after: str) -> None:
        """Does what is left to do after `stage`, or after `validate`."""
        if after == "stage":
            validate(self.at, self.folder, attempt)
        self.commit(attempt)

    def sql(self, statement: str, role: str = OWNER) -> list[tuple]:
        with transaction(self.at.conn, role) as cur:
            cur.execute(statement)
            return [tuple(row) for row in cur.fetchall()] if cur.description else [(cur.rowcount,)]

    def forge(self, attempt: AttemptId, statement: str, place: int = 0) -> None:
        """Runs a statement in another session with the stager's role."""
        table = f"{STAGING_SCHEMA}.{attempt.beside(place)}"
        assert self.sql(statement.format(table=table), "lockstep_stager")[0][0] > 0

    def check(self) -> PromiseCheck:
        """Returns plain verify's first failing check of contents, or the first one if none fails."""
        found = [c for c in verify(self.at.conn, self.at.broker, self.folder, deep=False) if is_of_contents(c)]
        return next((c for c in found if not c.ok), found[0])

    def others(self) -> set[str]:
        """Returns the other checks that fail."""
        checks = verify(self.at.conn, self.at.broker, self.folder, deep=False)
        return {c.name for c in checks if not c.ok and not is_of_contents(c)}
