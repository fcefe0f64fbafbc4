from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("SPARK_MASTER", "local[2,2]")  # a task may be tried twice

import itertools
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.context.systems import configured_registry
from lockstep.core.planning.decisions import Caller
from lockstep.engine.spark.engine import SparkEngine
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.context import Context
from support.oracles.checker import check

NUMBERS = itertools.count()
EXAMPLES = Path(__file__).parents[2] / "include" / "pipelines"
HEAD = """from lockstep.core.pipeline.definition import (
    Accumulate, Append, Avro, Count, Custom, Debezium, Envelope, History, Json, Limits, Max, Min, PerPartition, Pipeline,
    Protobuf, Raw, RecordLimits, Sum, Upsert)
"""
COORDINATES = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"


@dataclass
class Loaded:
    """A pipeline with its target, ready to run on Spark in this process."""

    name: str
    dsn: str
    kafka: str

    def run(self, engine=None, **caller: Any):
        at, spark, folder = self.parts()
        return run(at, engine or spark, folder, Caller("test", **caller))

    def run_until_idle(self):
        return list(until_idle(*self.parts(), Caller("test"), wait=1))  # type: ignore[call-arg, misc]

    def ask(self, query: str, *values: Any) -> list[tuple]:
        conn = psycopg2.connect(self.dsn)
        with conn, conn.cursor() as cur:
            cur.execute(query, values or None)
            rows = cur.fetchall()
        conn.close()
        return rows

    def violations(self, key: str | None = None) -> list[str]:
        return check(self.dsn, self.kafka, self.name, table=f"public.{self.name}", key=key, rest=True)

    def parts(self):
        folder = load(self.name)
        engine = SparkEngine(folder, self.kafka, self.dsn, registry=configured_registry())
        return Context(self.dsn, Broker(self.kafka)), engine, folder


@pytest.fixture
def pipeline(database, kafka, tmp_path, monkeypatch):
    """Returns `pipeline(topic, columns, ddl, target=..., transform=..., form=..., suite=[...])`.

    It writes a folder and makes its target. A target that is more than its name is written out, with TABLE for its
    table.
    """

    def make(
        topic: str,
        columns: str,
        ddl: str,
        target: str = "Append",
        transform: str | None = None,
        suite: list[dict] | None = None,
        **more: str,
    ) -> Loaded:
        name = f"p{next(NUMBERS)}"
        folder: Path = tmp_path / "pipelines" / name
        folder.mkdir(parents=True)
        key = more.pop("key", "")
        made = f'Upsert("public.{name}", key=("{key}",))' if target == "Upsert" else f'Append("public.{name}")'
        made = target.replace("TABLE", f"public.{name}") if "TABLE" in target else made
        fmt = more.pop("form", f'Json("{columns}"{f", key={key!r}" if key else ""})')
        extra = "".join(f", {option}={value}" for option, value in more.items())
        text = f'{HEAD}P = Pipeline(name="{name}", topic="{topic}", format={fmt}, target={made}{extra})\n'
        (folder / "__init__.py").write_text(text)
        unique = "" if "primary key" in ddl else ", primary key (_stream, _offset, _ordinal)"
        (folder / "target.sql").write_text(f"create table public.{name} ({ddl}, {COORDINATES}{unique});")
        if transform:
            (folder / "transform.py").write_text(transform)
        if suite:
            (folder / "expectations.json").write_text(json.dumps({"name": name, "expectations": suite}))
        monkeypatch.setenv("LOCKSTEP_PIPELINES", str(folder.parent))
        conn = connect(database)
        migrate_target(conn, load(name))
        conn.close()
        return Loaded(name, database, kafka)

    return make


@pytest.fixture
def example(database, kafka, topic, tmp_path, monkeypatch):
    """Returns `example(name)`, which takes an example unchanged, on a separate topic, and makes its target.

    `topics` are those of its feeds, by the name that the example gives them.
    """

    def take(name: str, **topics: str) -> tuple[Loaded, str]:
        source = topic(partitions=2)
        folder = tmp_path / "pipelines" / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        init = folder / "__init__.py"
        text = init.read_text().replace(f'topic="{load(name).pipeline.topic}"', f'topic="{source}"')
        for said, own in topics.items():
            text = text.replace(f'Topic("{said}"', f'Topic("{own}"')
        init.write_text(text)
        monkeypatch.setenv("LOCKSTEP_PIPELINES", str(folder.parent))
        conn = connect(database)
        migrate_target(conn, load(name))
        conn.close()
        return Loaded(name, database, kafka), source

    return take
