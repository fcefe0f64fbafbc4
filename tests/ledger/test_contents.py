"""Contents: values forged in staging are refused by name, values changed in an appended target are found by verify."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest

from here import Here
from lockstep.adapters.folders import load
from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.decisions import Caller
from lockstep.core.errors import Refusal
from lockstep.core.staging import STAGING_SCHEMA, AttemptId
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.verify_contents import NAME
from lockstep.steps.commit import commit
from lockstep.steps.plan import plan
from lockstep.steps.stage import stage
from lockstep.steps.validate import validate
from lockstep.steps.verify import verify

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
FORGED = {
    "a value": "update {table} set n = n + 1 where _offset = 3",
    "a null": "update {table} set n = null where _offset = 3",
    "a key": "update {table} set id = 'forged' where _offset = 3",
    "values that change places": """update {table} t set n = o.n from {table} o
        where t._stream = o._stream and (t._offset, o._offset) in ((3, 4), (4, 3))""",
    "a tombstone": "update {table} set _deleted = true where _offset = 3",
    "an ordinal": "update {table} set _ordinal = 7 where _offset = 3",
}
FOUND = r"^t-.*-\d: batch 1, stream \d+: the contents of its \d+ rows have changed in staging"


class Contents(Here):
    """A drill whose steps are taken one at a time."""

    def staged(self) -> AttemptId:
        planned = plan(self.at.conn, self.at.broker, self.folder, Caller("me"), datetime.now(UTC))
        return stage(self.at, self.engine, self.folder, planned.batch_id, Caller("me"))

    def validated(self) -> AttemptId:
        attempt = self.staged()
        validate(self.at, self.folder, attempt)
        return attempt

    def commit(self, attempt: AttemptId) -> None:
        commit(self.at, self.folder.pipeline, attempt)

    def sql(self, statement: str, role: str = OWNER) -> list[tuple]:
        with transaction(self.at.conn, role) as cur:
            cur.execute(statement)
            return [tuple(row) for row in cur.fetchall()] if cur.description else [(cur.rowcount,)]

    def forge(self, attempt: AttemptId, statement: str, place: int = 0) -> None:
        """As another session with the stager's role does."""
        table = f"{STAGING_SCHEMA}.{attempt.beside(place)}"
        assert self.sql(statement.format(table=table), "lockstep_stager")[0][0] > 0

    def check(self):
        (found,) = [c for c in verify(self.at.conn, self.at.broker, self.folder, deep=False) if c.name == NAME]
        return found

    def others(self) -> set[str]:
        """The other checks that say no."""
        return {c.name for c in verify(self.at.conn, self.at.broker, self.folder, deep=False) if not c.ok} - {NAME}


@pytest.fixture
def contents(drill):
    """`contents(kind)` gives the drill such a target; `target_sql` stands in its table's place."""
    opened = []

    def make(kind: str = "append", target_sql: str = "", schema: str = "id string, n int", more: str = "") -> Contents:
        target, table = KINDS[kind]
        folder = drill.home / "drill"
        (folder / "__init__.py").write_text(
            "from lockstep.core.definition import *\n"
            f'PIPELINE = Pipeline("drill", "{drill.topic}", Json("{schema}"), {target}{more})\n'
        )
        (folder / "target.sql").write_text(target_sql or table)
        if kind == "several":
            (folder / "transform.py").write_text("def one(df):\n    return df\n\n\ndef other(df):\n    return df\n")
        with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute("set role lockstep_owner; drop table public.drill")
        here = Contents(drill)
        opened.append(here)
        migrate_target(here.at.conn, load("drill"))
        return here

    yield make
    for here in opened:
        here.at.close()


@pytest.mark.parametrize("forged", FORGED)
def test_rows_forged_after_validate_are_refused_by_name(contents, forged):
    here = contents()
    attempt = here.validated()
    here.forge(attempt, FORGED[forged])
    with pytest.raises(Refusal, match=FOUND):
        here.commit(attempt)
    assert here.sql("select count(*) from public.drill") == [(0,)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", ["stage", "validate"])
def test_rows_forged_in_staging_are_refused_for_each_kind_of_target(contents, kind, after):
    here = contents(kind)
    attempt = here.staged()
    if after == "validate":
        validate(here.at, here.folder, attempt)
    here.forge(attempt, FORGED["a value"], place=int(kind == "several"))
    if after == "stage":
        validate(here.at, here.folder, attempt)
    with pytest.raises(Refusal, match=FOUND):
        here.commit(attempt)
    assert here.sql("select count(*) from public.drill") == [(0,)]
    here.drain()
    assert here.sql("select count(*) from public.drill") == [(150,)]
    assert here.check().ok
