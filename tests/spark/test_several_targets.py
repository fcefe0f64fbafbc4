"""Tests several targets of one pipeline: one read of the log, one transaction, and each record counted once.

Each target has its own function.
"""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.changes.person import Person
from lockstep.core.errors import BadData, BadDefinition
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.views import tracing
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.context import Context
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests import requests
from lockstep.steps.requests.preview import preview

ME = Person("me", "a test")
EXAMPLE = Path(__file__).parents[2] / "include" / "pipelines" / "baskets"
COORDINATES = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
UNIQUE = "primary key (_stream, _offset, _ordinal)"
DEFINITION = """from lockstep.core.pipeline.definition import Append, Json, Pipeline, Upsert
P = Pipeline(
    name="baskets",
    topic="{topic}",
    format=Json("id string, customer string, goods string", key="id"),
    target=(
        Append("public.seen"),
        Upsert("public.heads", key=("id",), transform="heads"),
        Append("public.lines", transform="lines"),
    ),
)
"""
TRANSFORM = """from pyspark.sql import functions as F


def heads(records, run):
    return records.where("customer is not null").select("_stream", "_offset", "id", F.lit(run.planned_at).alias("at"))


def lines(records):
    goods = F.posexplode(F.split("goods", " ")).alias("_ordinal", "good")
    return records.select("_stream", "_offset", goods).where("good <> 'nothing'").repartition(3, "good")
"""
TARGET = f"""
create table public.seen (id text, customer text, goods text, {COORDINATES}, {UNIQUE});
create table public.heads (id text primary key, at timestamptz, {COORDINATES});
create table public.lines (good text, {COORDINATES}, {UNIQUE});
"""


class Baskets:
    """A pipeline of three targets over its own topic."""

    def __init__(self, dsn: str, kafka: str, topic: str, home) -> None:
        self.dsn, self.topic = dsn, topic
        self.at = Context(dsn, Broker(kafka))
        self.kafka = kafka
        self.path = home / "pipelines" / "baskets"
        self.path.mkdir(parents=True)
        self.write("__init__.py", DEFINITION.format(topic=topic))
        self.write("transform.py", TRANSFORM)
        self.write("target.sql", TARGET)

    def write(self, file: str, text: str) -> None:
        (self.path / file).write_text(text)

    @property
    def folder(self):
        return load("baskets")

    @property
    def engine(self):
        from lockstep.engine.spark.engine import SparkEngine  # noqa: PLC0415 - after SPARK_MASTER is set

        return SparkEngine(self.folder, self.kafka, self.dsn)

    def run(self, **caller: Any):
        return run(self.at, self.engine, self.folder, Caller("test", **caller))

    def asked(self, **how: Any):
        wanted = requests.NewRequest(Lane.REPLAY, None, None, **how)
        return requests.open_request(self.at.conn, self.at.broker, self.folder, wanted, ME, datetime.now(UTC))

    def ask(self, query: str) -> list[tuple]:
        with closing(psycopg2.connect(self.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(query)
            return cur.fetchall()

    def proved(self) -> list[str]:
        return [check.name for check in verify(self.at.conn, self.at.broker, self.folder, deep=True) if not check.ok]


@pytest.fixture
def baskets(database, kafka, topic, produce, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(tmp_path / "pipelines"))
    name = topic(partitions=2)
    made = Baskets(database, kafka, name, tmp_path)
    with closing(connect(database)) as conn:
        migrate_target(conn, load("baskets"))
    records = [{"id": f"o{i}", "customer": f"c{i}" if i % 4 else None, "goods": "milk bread"} for i in range(12)]
    records += [{"id": "empty", "customer": None, "goods": "nothing"}]
    produce(name, [(r["id"], json.dumps(r)) for r in records])
    produce(name, [("o1", None), ("o3", None), ("bad", b"{")])
    return made


def test_each_target_has_its_rows_and_each_record_is_counted_once(baskets):
    report = baskets.run()
    counts = [sum(getattr(r, n) for r in report.ranges) for n in ("delivered", "written", "filtered", "rejected")]
    assert counts == [16, 15, 0, 1]
    assert baskets.ask("select count(*), count(distinct id) from seen") == [(13, 13)]
    assert baskets.ask("select count(*) from lines") == [(24,)]
    heads = baskets.ask("select id from heads order by id")
    assert heads == [(f"o{i}",) for i in (10, 11, 2, 5, 6, 7, 9)]  # o1 and o3 are deleted, every fourth has no customer
    assert baskets.ask("select count(*) from lockstep.reject") == [(1,)]
    assert baskets.ask("select effect from lockstep.attempt") == [
        (
            {
                "public.seen": {"inserted": 13},
                "public.heads": {"inserted": 7, "updated": 0, "deleted": 0, "superseded": 2},
                "public.lines": {"inserted": 24},
            },
        )
    ]
    told = baskets.ask("select place, sum(rows), sum(records) from lockstep.target_rows group by 1 order by 1")
    assert [tuple(map(int, row)) for row in told] == [(0, 13, 13), (1, 11, 9), (2, 24, 12)]
    assert baskets.ask("select distinct at = planned_at from heads join lockstep.batch on batch_id = _batch") == [
        (True,)
    ]
    assert baskets.ask("select tablename from pg_tables where schemaname = 'lockstep_staging'") == []
    assert baskets.proved() == []
    with transaction(baskets.at.conn, READER) as cur:
        ((partition, offset),) = baskets.ask(
            "select partition, _offset from seen join lockstep.stream on stream_id = _stream where id = 'o2'"
        )
        rows = tracing.outcome_of_record(cur, baskets.folder.pipeline, partition, offset)["rows"]
    assert [row["_target"] for row in rows] == ["public.seen", "public.heads", "public.lines", "public.lines"]


def test_verify_names_the_target_that_lacks_a_row(baskets):
    baskets.run()
    with closing(connect(baskets.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_committer")
        cur.execute("delete from public.lines where _ordinal = 1 and _offset = (select max(_offset) from public.lines)")
    assert "rows are all there: public.lines" in baskets.proved()


@pytest.mark.long
def test_a_preview_tells_the_difference_of_every_target_and_a_replay_makes_it(baskets):
    baskets.run()
    code = TRANSFORM.replace("customer is not null", "customer is null").replace("<> 'nothing'", "= 'milk'")
    baskets.write("transform.py", code)
    before = baskets.ask("select id from heads order by 1")

    asked = baskets.asked(preview=True)
    found, _ = preview(baskets.at, baskets.engine, baskets.folder, asked.request_id, Caller("test"))

    assert found.targets == {
        "public.seen": {"added": 0, "changed": 0, "removed": 0, "unchanged": 13},
        "public.heads": {"added": 4, "changed": 0, "removed": 7, "unchanged": 0},
        "public.lines": {"added": 0, "changed": 0, "removed": 12, "unchanged": 12},
    }
    assert baskets.ask("select id from heads order by 1") == before
    assert baskets.ask("select tablename from pg_tables where schemaname = 'lockstep_staging'") == []

    asked = baskets.asked()
    list(until_idle(baskets.at, baskets.engine, baskets.folder, Caller("test"), 1, request_id=asked.request_id))

    assert baskets.ask("select id from heads order by 1") == [("empty",), ("o0",), ("o4",), ("o8",)]
    assert baskets.ask("select distinct good, count(*) from lines group by 1") == [("milk", 12)]
    assert baskets.ask("select count(*) from seen") == [(13,)]
    replayed = baskets.ask("select max(batch_id) from lockstep.batch")
    assert (
        baskets.ask("select _batch from seen union select _batch from lines union select _batch from heads") == replayed
    )
    assert baskets.proved() == []


def test_the_example_keeps_heads_and_lines(database, kafka, topic, produce, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(tmp_path / "pipelines"))
    shop = Baskets(database, kafka, topic(partitions=2), tmp_path)
    for file in filter(Path.is_file, EXAMPLE.iterdir()):
        shop.write(file.name, file.read_text().replace("baskets.v1", shop.topic))
    migrate_target(shop.at.conn, shop.folder)
    goods = [{"sku": "milk", "quantity": 2, "price": 1.05}, {"sku": "bread", "quantity": 1, "price": 3}]
    basket = {"customer": "c1", "placed_at": "2026-05-01T10:00:00Z"}
    given = [("b1", goods), ("b2", None), ("b3", goods[:1]), ("b1", goods[1:])]
    produce(shop.topic, [(b, json.dumps(basket | {"basket_id": b, "lines": lines})) for b, lines in given])
    produce(shop.topic, [("b3", None)])
    shop.run()
    assert shop.ask("select basket_id, lines from baskets order by 1") == [("b1", 1), ("b2", 0)]
    lines = shop.ask("select basket_id, _ordinal, sku, quantity, price from basket_lines order by 1, 3, 2")
    bread, milk = ("bread", 1, Decimal("3.00")), ("milk", 2, Decimal("1.05"))
    assert lines == [("b1", 0, *bread), ("b1", 1, *bread), ("b1", 0, *milk), ("b3", 0, *milk)]
    assert shop.proved() == []


def test_a_limit_in_one_of_several_transforms_is_refused(baskets):
    baskets.write(
        "transform.py",
        TRANSFORM + "    .limit(3)\n".replace("    .", "\nlines_ = lines\n\n\ndef lines(r):\n    return lines_(r)."),
    )
    with pytest.raises(BadData, match="must not use limit"):
        baskets.run()


def test_a_function_that_is_not_there_is_named(baskets):
    baskets.write("transform.py", TRANSFORM.replace("def lines", "def rows"))
    with pytest.raises(
        BadDefinition, match=r"no function lines, which makes the rows of public.lines; it has: heads, rows"
    ):
        baskets.run()


def test_the_targets_of_a_pipeline_are_kept_for_good(baskets):
    baskets.run()
    baskets.write("__init__.py", DEFINITION.format(topic=baskets.topic).replace('Append("public.seen"),', ""))
    blocked = baskets.run()
    assert "its target was" in blocked.decision.reason
