"""Runs the drill's pipeline in this process with the plain engine. Only Spark is left out."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.context.systems import stores
from lockstep.core.changes.person import Person
from lockstep.core.planning.bounds import parse_bound
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.changes.skip import skip
from lockstep.steps.context import Context
from lockstep.steps.requests import requests
from lockstep.steps.requests.preview import preview
from support.fakes.plain_engine import PlainEngine

if TYPE_CHECKING:
    from lockstep.core.planning.requests import Request
    from support.scenes.drill import Drill

ME = Person("me", "a test")

NEWEST = """create table if not exists public.newest (id text primary key, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null);
"""


def unchanged(value):
    """Returns the record as it is, as without any code."""
    return value


class Here:
    """The actions of a user on the drill's pipeline. `code` is the function that is applied to a record."""

    def __init__(self, drill: Drill) -> None:
        self.drill = drill
        self.at = Context(drill.dsn, Broker(drill.kafka), stores())
        self.code = unchanged

    @property
    def folder(self):
        return load("drill")

    @property
    def folder_as_run(self):
        """Returns the folder as verify must see it: code that a test gives the engine is a transform of no file."""
        return (
            replace(self.folder, transform=self.folder.transform or "code")
            if self.code is not unchanged
            else self.folder
        )

    @property
    def engine(self) -> PlainEngine:
        return PlainEngine(self.folder, self.drill.kafka, self.drill.dsn, self.code)

    def rewrite(self, old: str, new: str) -> None:
        file = self.drill.home / "drill" / "__init__.py"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def run(self, **caller: Any):
        return run(self.at, self.engine, self.folder, Caller(caller.pop("owner", "me"), **caller))

    def plan(self, **how: Any):
        return plan(self.at.conn, self.at.broker, self.folder, Caller("me"), datetime.now(UTC), **how).decision

    def drain(self) -> None:
        while self.run().went_on:
            pass

    def ask(self, lane: str, begin: str | None = None, until: str | None = None, **more: Any) -> Request | None:
        """Records a request, as the command line does. `now` is its time."""
        now = more.pop("now", datetime.now(UTC))
        wanted = requests.NewRequest(
            Lane(lane),
            parse_bound(begin, "--from") if begin else None,
            parse_bound(until, "--until") if until else None,
            **more,
        )
        return requests.open_request(self.at.conn, self.at.broker, self.folder, wanted, ME, now)

    def work(self, asked: Request | None, wait: float = 1, **caller: Any):
        """Does a request's batches, none if nothing was to be done. The last report says how it ended."""
        if asked is None:
            return []
        who = Caller(caller.pop("owner", "me"), **caller)
        return list(until_idle(self.at, self.engine, self.folder, who, wait, request_id=asked.request_id))

    def replay(self, begin: str | None = None, until: str | None = None, **more: Any):
        return self.work(self.ask("replay", begin, until, **more))

    def fill(self, begin: str | None = None, until: str | None = None, **more: Any):
        return self.work(self.ask("fill", begin, until, **more))

    def preview(self, lane: str, begin: str | None = None, until: str | None = None):
        asked = self.ask(lane, begin, until, preview=True)
        return preview(self.at, self.engine, self.folder, asked.request_id, Caller("me"))

    def skip(self, to: str | None = None):
        bound = parse_bound(to, "--to") if to else None
        return skip(self.at.conn, self.at.broker, self.folder.pipeline, bound, ME, datetime.now(UTC))


def into_two(drill: Drill) -> Here:
    """Leads the drill into two targets: every record as it came, and the newest of each id."""
    here = Here(drill)
    both = 'target=(Append("public.drill"), Upsert("public.newest", key=("id",)))'
    here.rewrite("import Append,", "import Append, Upsert,")
    here.rewrite('target=Append("public.drill")', both)
    target = drill.home / "drill" / "target.sql"
    target.write_text(target.read_text() + NEWEST)
    migrate_target(here.at.conn, here.folder)
    return here


class Told(threading.Thread):
    """A run in progress. `end` returns its result: a report, or an error."""

    def __init__(self, here: Here, **caller: Any) -> None:
        super().__init__(daemon=True)
        self.here, self.caller = here, caller
        self.said: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.said = self.here.run(**self.caller)
        except Exception as error:  # noqa: BLE001 - what it was told is what the test looks at
            self.said = error

    def end(self, seconds: float = 60):
        self.join(seconds)
        assert not self.is_alive(), "a hang"
        return self.said


def into_feed(drill: Drill, more: str = "") -> Here:
    """Leads the drill into a table with a feed: the newest of each id. `more` is put behind the target."""
    here = Here(drill)
    here.rewrite("import Append,", "import Feed, PerPartition, Upsert,")
    here.rewrite('target=Append("public.drill")', f'target=Upsert("public.newest", key=("id",), feed=Feed()){more}')
    (drill.home / "drill" / "target.sql").write_text(NEWEST)
    migrate_target(here.at.conn, here.folder)
    return here
