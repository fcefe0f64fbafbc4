"""Provides a drill whose results move apart from the offsets: into the ledger's or another database, or into files."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from contextlib import closing
from functools import partial
from typing import Any

import psycopg2
import pyarrow.dataset as ds
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.adapters.processes import this_owner
from lockstep.context.systems import dsn, results_elsewhere, stores
from lockstep.core.planning.decisions import Caller
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.batch.run import until_idle as run_until_idle
from lockstep.steps.proof.verify import verify
from lockstep.targets.stores.stores import results_of
from simulation.child import Child
from support.scenes.drill import Drill
from support.scenes.here import Here
from support.scenes.stores_facts import APPEND, UPSERT

NUMBERS = itertools.count()
DEFINITION = """
from lockstep.core.pipeline.definition import *
P = Pipeline(
    name="drill", topic="{topic}", format=Json("id string, n int", key="id"), target={target},
    limits=Limits(records=200), guarantee={guarantee}, store={store},
)
"""
COLUMNS = """id text{key}, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null"""
TABLE = "create table if not exists public.drill ({columns}{last});"
STORES = {"own": "None", "warehouse": 'Postgres("WAREHOUSE")', "files": 'Files("drills")'}
RECORDS = 150


class Delivered(Drill):
    """A drill with its own guarantee, run by forked processes, and a look at its results in any store."""

    def fork(self, fault: str | None = None, *, until_idle: bool = False, **caller: Any) -> Child:
        """Forks a process that runs one batch, or all of them. It may be struck on its way."""
        return Child.fork(
            self.home / f"armed-{next(NUMBERS)}", fault, lambda: self._run(until_idle=until_idle, **caller)
        )

    def dies_at(self, point: str) -> None:
        outcome = self.fork(f"{point}=kill").wait()
        assert (outcome.kind, outcome.told) == ("killed", {"by": "SIGKILL", "reached": True})

    def finishes(self) -> list[int]:
        """Lets another process do the rest. Returns the batches that it has committed."""
        outcome = self.fork(until_idle=True).wait()
        assert outcome.told.get("decision") == "Idle", outcome
        return outcome.told["committed"]

    def _run(self, *, until_idle: bool, **caller: Any) -> dict:
        here, who = Here(self), Caller(this_owner(), **caller)
        go = partial(run_until_idle, wait=20) if until_idle else lambda *given: [run(*given)]
        reports = list(go(here.at, here.engine, here.folder, who))
        worked = [report.batch_id for report in reports if report.went_on and not report.superseded]
        last = reports[-1]
        return {"decision": type(last.decision).__name__, "committed": worked, "superseded": last.superseded}

    def rows(self, columns: str = "_stream, _offset, _ordinal") -> list[tuple]:
        """Returns the results in order, from any store."""
        names = [name.strip() for name in columns.split(",")]
        if load("drill").pipeline.store is None:
            return self._asked(self.dsn, columns)
        if "WAREHOUSE" in str(load("drill").pipeline.store):
            return self._asked(stores()["WAREHOUSE"], columns)
        files = [str(path) for path in self.files()]
        table = ds.dataset(files, format="parquet").to_table(columns=names) if files else None
        return sorted(zip(*(table.column(name).to_pylist() for name in names), strict=True)) if table else []

    def files(self):
        return sorted((self.home.parent / "files").glob("drills/drill/*/[0-9]*.parquet"))

    def counted(self) -> tuple[int, int]:
        """Returns (offsets that have no row, rows more than one), against the whole topic."""
        found = Counter(self.rows("_stream, _offset"))
        return RECORDS - len(found), sum(found.values()) - len(found)

    def verified(self, ran: Here | None = None, *, deep: bool = True) -> dict[str, tuple[bool, str]]:
        """Runs verify under the folder, with the code that `ran` has given the engine."""
        here = Here(self)
        folder = ran.folder_as_run if ran else load("drill")
        checks = verify(here.at.conn, here.at.broker, folder, deep=deep, results=results_elsewhere(folder.pipeline))
        here.at.close()
        return {check.name: (check.ok, check.detail) for check in checks}

    def _asked(self, where: str, columns: str) -> list[tuple]:
        with closing(psycopg2.connect(where)) as conn, conn.cursor() as cur:
            cur.execute(f"select {columns} from public.drill order by {columns}")
            return cur.fetchall()


@pytest.fixture
def warehouse(servers):
    """Yields the DSN of another database, empty."""
    with servers.empty_database(f"warehouse_{os.getpid()}_{next(NUMBERS)}") as dsn:
        yield dsn


@pytest.fixture
def delivered(database, kafka, topic, produce, tmp_path, monkeypatch, warehouse):
    """Yields `delivered("Idempotent()", "warehouse")`.

    It makes a drill with 150 records over three partitions, and its store.
    """
    made: list[Drill] = []

    def make(guarantee: str, store: str, target: str = APPEND, records=None) -> Delivered:
        name = topic(partitions=3)
        home = tmp_path / "pipelines"
        (home / "drill").mkdir(parents=True)
        definition = DEFINITION.format(topic=name, target=target, guarantee=guarantee, store=STORES[store])
        (home / "drill" / "__init__.py").write_text(definition)
        unique = (
            ", primary key (_stream, _offset, _ordinal)" if guarantee == "Idempotent()" and target == APPEND else ""
        )
        columns = COLUMNS.format(key=" primary key" if target == UPSERT else "")
        (home / "drill" / "target.sql").write_text(TABLE.format(columns=columns, last=unique))
        for variable, value in {
            "LOCKSTEP_PIPELINES": home,
            "LOCKSTEP_DSN": database,
            "LOCKSTEP_KAFKA": kafka,
            "LOCKSTEP_STORE_WAREHOUSE": warehouse,
            "LOCKSTEP_STORE_FILES": tmp_path / "files",
        }.items():
            monkeypatch.setenv(variable, str(value))
        folder = load("drill")
        if folder.pipeline.store is None:
            with closing(connect(database)) as conn:
                migrate_target(conn, folder)
        else:
            results_of(folder.pipeline, dsn(), stores()).make(folder)
        given = [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(RECORDS)] if records is None else records
        produce(name, given)
        made.append(Delivered(database, kafka, name, home))
        return made[-1]  # type: ignore[return-value]

    yield make
    for drill in made:
        drill.end()
