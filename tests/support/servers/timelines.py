"""Makes two timelines of one ledger. A copy made before a batch plays the replica that was promoted without it."""

from __future__ import annotations

import re
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg2

from lockstep.core.engine import RangeTask
from support.fakes.plain_engine import PlainEngine
from support.scenes.here import Here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.scenes.drill import Drill


@contextmanager
def copied(superuser: str, dsn: str) -> Iterator[str]:
    """Yields the DSN of a copy of this database as it is now. No session may be open there meanwhile."""
    name = dsn.rpartition("/")[2]
    with closing(psycopg2.connect(superuser)) as admin:
        admin.autocommit = True
        admin.cursor().execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", (name,)
        )
        admin.cursor().execute(f"create database {name}_copy template {name} owner lockstep")
        yield re.sub(r"/\w+$", f"/{name}_copy", dsn)
        admin.cursor().execute(f"drop database {name}_copy with (force)")


class Timelines:
    """The work begun in the lost timeline, and the ledger that survives.

    Their code makes different values of a record.
    """

    def __init__(self, drill: Drill, survivor: str) -> None:
        self.lost = Here(drill)
        self.lost.code = lambda value: value | {"n": value["n"] + 1_000}
        self.survivor = Here(replace(drill, dsn=survivor))

    def values(self) -> list[int]:
        return sorted(n for (n,) in self.survivor.drill.ask("select n from public.drill"))

    def end(self) -> None:
        for here in (self.lost, self.survivor):
            here.at.close()


class Swapped(PlainEngine):
    """An engine that reads for an attempt of the lost timeline, and finds the survivor when it writes."""

    def __init__(self, timelines: Timelines, meanwhile: Callable[[], None]) -> None:
        lost = timelines.lost
        super().__init__(lost.folder, lost.drill.kafka, timelines.survivor.drill.dsn, lost.code)
        self.meanwhile = meanwhile

    def read(self, work, sink):
        self.meanwhile()
        return super().read(work, replace(sink, dsn=self.dsn) if isinstance(sink, RangeTask) else sink)  # type: ignore[type-var]
