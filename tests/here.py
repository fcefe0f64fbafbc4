"""Runs the drill's pipeline in this process with the plain engine. Only Spark is left out."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lockstep.adapters.folders import load
from lockstep.adapters.kafka import Broker
from lockstep.cli.surroundings import stores
from lockstep.core.bounds import parse_bound
from lockstep.core.decisions import Caller
from lockstep.core.person import Person
from lockstep.ledger.migrate import migrate_target
from lockstep.steps import requests
from lockstep.steps.plan import plan
from lockstep.steps.preview import preview
from lockstep.steps.run import run, until_idle
from lockstep.steps.skip import skip
from lockstep.steps.surroundings import Surroundings
from plain_engine import PlainEngine

if TYPE_CHECKING:
    from drill import Drill

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
        self.at = Surroundings(drill.dsn, Broker(drill.kafka), stores())
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

    def run(self, **caller: object):
        return run(self.at, self.engine, self.folder, Caller(caller.pop("owner", "me"), **caller))

    def plan(self, **how: object):
        return plan(self.at.conn, self.at.broker, self.folder, Caller("me"), datetime.now(UTC), **how).decision

    def drain(self) -> None:
        while self.run().went_on:
            pass

    def ask(self, lane: str, begin: str | None = None, until: str | None = None, **more: object) -> requests.Asked:
        """Records a request, as the command line does. `now` is its time."""
        now = more.pop("now", datetime.now(UTC))
        wanted = requests.Wanted(
            lane, begin and parse_bound(begin, "--from"), until and parse_bound(until, "--until"), **more
        )
        return requests.ask(self.at.conn, self.at.broker, self.folder, wanted, ME, now)

    def work(self, asked: requests.Asked, wait: float = 1, **caller: object):
        """Does a request's batches. The last report says how it ended."""
        caller = Caller(caller.pop("owner", "me"), **caller)
        return list(until_idle(self.at, self.engine, self.folder, caller, wait, request_id=asked.request_id))

    def replay(self, begin: str | None = None, until: str | None = None, **more: object):
        return self.work(self.ask("replay", begin, until, **more))

    def fill(self, begin: str | None = None, until: str | None = None, **more: object):
        return self.work(self.ask("fill", begin, until, **more))

    def preview(self, lane: str, begin: str | None = None, until: str | None = None):
        asked = self.ask(lane, begin, until, preview=True)
        return preview(self.at, self.engine, self.folder, asked.request_id, Caller("me"))

    def skip(self, to: str | None = None):
        bound = to and parse_bound(to, "--to")
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

    def __init__(self, here: Here, **caller: object) -> None:
        super().__init__(daemon=True)
        self.here, self.caller, self.said = here, caller, None
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
