from __future__ import annotations

import os

os.environ.setdefault("SPARK_MASTER", "local[2,2]")  # a task may be tried twice

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg2
import pytest

from checker import check
from lockstep.adapters.folders import load
from lockstep.adapters.kafka import Broker
from lockstep.adapters.postgres import connect
from lockstep.adapters.spark import SparkEngine
from lockstep.core.decisions import Caller
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.run import run, until_idle
from lockstep.steps.surroundings import Surroundings

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = itertools.count()
HEAD = "from lockstep.core.definition import Append, Json, Limits, PerPartition, Pipeline, Upsert\n"
COORDINATES = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"


@dataclass
class Loaded:
    """A pipeline with its target, ready to run on Spark in this process."""

    name: str
    dsn: str
    kafka: str

    def run(self, **caller: object):
        return run(*self.parts(), Caller("test", **caller))

    def run_until_idle(self):
        return list(until_idle(*self.parts(), Caller("test"), wait=1))

    def ask(self, query: str) -> list[tuple]:
        conn = psycopg2.connect(self.dsn)
        with conn, conn.cursor() as cur:
            cur.execute(query)
            rows = cur.fetchall()
        conn.close()
        return rows

    def violations(self, key: str | None = None) -> list[str]:
        return check(self.dsn, self.kafka, self.name, table=f"public.{self.name}", key=key, rest=True)

    def parts(self):
        folder = load(self.name)
        return Surroundings(self.dsn, Broker(self.kafka)), SparkEngine(folder, self.kafka, self.dsn), folder


@pytest.fixture
def pipeline(database, kafka, tmp_path, monkeypatch):
    """`pipeline(topic, columns, target=..., ddl=..., transform=...)` writes a folder and makes its target."""

    def make(
        topic: str, columns: str, ddl: str, target: str = "Append", transform: str | None = None, **more: str
    ) -> Loaded:
        name = f"p{next(NUMBERS)}"
        folder: Path = tmp_path / "pipelines" / name
        folder.mkdir(parents=True)
        key = more.pop("key", "")
        made = f'Upsert("public.{name}", key=("{key}",))' if target == "Upsert" else f'Append("public.{name}")'
        fmt = f'Json("{columns}"{f", key={key!r}" if key else ""})'
        extra = "".join(f", {option}={value}" for option, value in more.items())
        text = f'{HEAD}P = Pipeline(name="{name}", topic="{topic}", format={fmt}, target={made}{extra})\n'
        (folder / "__init__.py").write_text(text)
        unique = "" if key else ", primary key (_stream, _offset, _ordinal)"
        (folder / "target.sql").write_text(f"create table public.{name} ({ddl}, {COORDINATES}{unique});")
        if transform:
            (folder / "transform.py").write_text(transform)
        monkeypatch.setenv("LOCKSTEP_PIPELINES", str(folder.parent))
        conn = connect(database)
        migrate_target(conn, load(name))
        conn.close()
        return Loaded(name, database, kafka)

    return make
