"""Makes the data of the pages: orders with all their events, payments that are refused, and clicks."""

from __future__ import annotations

import json
import random
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg2
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.changes.person import Person
from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange
from lockstep.core.offsets import TopicPartition as Partition
from lockstep.core.planning.bounds import parse_bound
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.changes.decisions import accept_loss, pause
from lockstep.steps.changes.skip import skip
from lockstep.steps.context import Context
from lockstep.steps.requests import requests
from support.fakes.plain_engine import PlainEngine
from support.servers.scheduled import OVER, wait_for
from support.servers.servers import make_topic

if TYPE_CHECKING:
    from support.servers.scheduled import House

ME = Person("ada", "the code was mended")
DEFINITION = """
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline, Upsert
P = Pipeline(
    name="{name}", topic="{topic}", format=Json("{columns}", key={key}), target={target},
    limits=Limits(records=2_000), owner="shop", on_violation="{on_violation}",
)
"""
TABLE = """create table if not exists public.{name} ({columns}, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key ({key}));
"""
DAG_FILE = """
from lockstep.adapters.folders import load
from lockstep.airflow import dag_for

dag = dag_for(load("{name}").pipeline, is_paused_upon_creation=False)
"""
COORDINATES = "_stream, _offset, _ordinal"


@dataclass
class Shop:
    """Three pipelines of a house, run partly by its Airflow and partly, faster, without Spark in this process."""

    house: House
    topics: dict[str, str] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - orders of a shop
    sent: int = 0

    def live(self) -> None:
        """Makes every event that the pages must show."""
        orders = "order_id string, customer string, amount double, status string"
        self.pipeline("orders", orders, 6, key="order_id", expects=[("amount", "quarantine")])
        self.pipeline("payments", "payment_id string, amount double", 3, expects=[("amount", "refuse")])
        self.pipeline("clicks", "page string, visitor string", 4)
        wait_for(lambda: {"orders", "payments", "clicks"} <= self.house.api.dags().keys(), "the DAGs are parsed")
        for size in (300, 220, 260, 180, 420, 300, 280, 350):
            self.orders(size)
            self.run("orders")
        self.orders(200, odd=5)
        self.run("orders")
        self.orders(240)
        self.stumble("orders")
        self.skip_and_fill()
        for size in (310, 290, 330):
            self.orders(size)
            self.run("orders")
        self.lose(partition=4)
        self.request("orders", "replay", "1:20", "1:90")
        for size in (40, 60, 50):
            self.send("clicks", [{"page": f"/p/{i % 9}", "visitor": f"v{i}"} for i in range(size)])
            self.run("clicks")
        with closing(connect(self.house.place.dsn)) as conn:
            pause(conn, "clicks", Person("ada", "the topic moves"))
        self.send("payments", [{"payment_id": f"p{i}", "amount": 5.0 * i} for i in range(80)])
        self.run("payments")
        self.send("payments", [{"payment_id": f"q{i}", "amount": -1.0 if i % 9 == 0 else 2.5} for i in range(40)])
        self.stumble("payments", lambda value: value)
        self.orders(260)
        self.dag_run = self.run_dag("orders")
        self.orders(90)

    def pipeline(
        self, name: str, columns: str, partitions: int, key: str | None = None, expects: tuple | list = ()
    ) -> None:
        """Makes a topic, a folder, a table and a DAG file.

        `expects` are columns that must not be negative, and the consequence of a violation.
        """
        place = self.house.place
        topic = self.topics[name] = f"shop.{name}"
        admin = AdminClient({"bootstrap.servers": place.kafka})
        if topic in admin.list_topics(timeout=20).topics:  # servers that are kept between sessions
            admin.delete_topics([topic])[topic].result(20)
            wait_for(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic of yesterday is gone")
        make_topic(place.kafka, topic, partitions)
        folder = place.pipelines / name
        folder.mkdir()
        target = f'Upsert("public.{name}", key=("{key}",))' if key else f'Append("public.{name}")'
        on_violation = expects[0][1] if expects else "refuse"
        facts = {"name": name, "topic": topic, "columns": columns, "key": repr(key), "target": target}
        (folder / "__init__.py").write_text(DEFINITION.format(**facts, on_violation=on_violation))
        sql = columns.replace("string", "text").replace("double", "float8")
        (folder / "target.sql").write_text(TABLE.format(name=name, columns=sql, key=key or COORDINATES))
        between = "expect_column_values_to_be_between"
        suite = [{"type": between, "kwargs": {"column": column, "min_value": 0}} for column, _ in expects]
        if suite:
            (folder / "expectations.json").write_text(json.dumps({"name": name, "expectations": suite}))
        with closing(connect(place.dsn)) as conn:
            migrate_target(conn, load(name))
        (place.dags / f"{name}.py").write_text(DAG_FILE.format(name=name))

    def orders(self, number: int, odd: int = 0) -> None:
        """Sends so many orders. The last `odd` of them are no JSON or have an invalid amount."""
        states, known = ("placed", "paid", "sent", "returned"), max(40, self.sent // 2)
        found: list[Any] = [
            {
                "order_id": f"o-{self.chance.randrange(known):05}" if self.sent else f"o-{i:05}",
                "customer": f"c-{self.chance.randrange(60):03}",
                "amount": round(self.chance.uniform(3, 240), 2),
                "status": self.chance.choice(states),
            }
            for i in range(number)
        ]
        for i in range(odd):
            found[-1 - i] = "{not JSON" if i % 2 else {**found[-1 - i], "amount": -4.5}
        self.sent += number
        self.send("orders", found)

    def send(self, name: str, values: list) -> None:
        producer = Producer({"bootstrap.servers": self.house.place.kafka, "partitioner": "murmur2_random"})
        for i, value in enumerate(values):
            key = value.get("order_id", f"k{i}") if isinstance(value, dict) else f"k{i}"
            producer.produce(self.topics[name], value if isinstance(value, str) else json.dumps(value), key)
        producer.flush(20)

    def run_dag(self, name: str) -> str:
        """Runs the DAG by Airflow and Spark, to its end. Returns the run's id."""
        run_id = self.house.api.trigger(name)

        def over() -> str | None:
            found = {each["dag_run_id"]: each["state"] for each in self.house.api.runs(name)}[run_id]
            return found if found in OVER else None

        assert wait_for(over, f"{run_id} of {name} is over", 600) == "success"
        return run_id

    def run(self, name: str) -> None:
        """Runs one batch without Airflow or Spark."""
        with self.at() as at:
            run(at, self.engine(name), load(name), Caller("ada at her desk"))

    def stumble(self, name: str, change=None) -> None:
        """Runs a batch whose first attempt fails, by default at its code. The second one commits."""

        def fail(_value):
            raise ZeroDivisionError("division by zero")

        with self.at() as at:
            try:
                run(at, self.engine(name, change or fail), load(name), Caller("ada at her desk"))
            except (Refusal, ZeroDivisionError):
                if change is None:
                    run(at, self.engine(name), load(name), Caller("ada at her desk", take_over=True))
                return
        raise AssertionError("it did not stumble")

    def skip_and_fill(self) -> None:
        """Skips orders, and fills a part of them later."""
        self.orders(320)
        with self.at() as at:
            skip(at.conn, at.broker, load("orders").pipeline, None, ME, datetime.now(UTC))
            ((until,),) = self.ask(
                "select max(position) from lockstep.stream where topic = %s and partition = 0", self.topics["orders"]
            )
        self.request("orders", "fill", f"0:{until - 40}", f"0:{until}")
        self.request("orders", "fill", "3:0", "3:100000")

    def lose(self, partition: int) -> None:
        """Cuts the log of a partition behind its position, and accepts the loss."""
        self.orders(300)
        topic = self.topics["orders"]
        ((position,),) = self.ask(
            "select position from lockstep.stream where topic = %s and partition = %s", topic, partition
        )
        admin = AdminClient({"bootstrap.servers": self.house.place.kafka})
        where = TopicPartition(topic, partition, position + 12)
        admin.delete_records([where])[where].result(20)
        with self.at() as at:
            lost = OffsetRange(Partition(topic, partition), position, position + 12)
            accept_loss(at.conn, at.broker, load("orders").pipeline, lost, Person("ada", "the shop was moved"))
        self.run("orders")

    def position(self, partition: int) -> int:
        """Returns the position of the orders."""
        query = "select position from lockstep.stream where pipeline = 'orders' and partition = %s"
        ((found,),) = self.ask(query, partition)
        return found

    def request(self, name: str, lane: str, begin: str, until: str) -> None:
        """Does a fill or a replay, to its end."""
        folder = load(name)
        with self.at() as at:
            wanted = requests.NewRequest(Lane(lane), parse_bound(begin, "--from"), parse_bound(until, "--until"))
            asked = requests.open_request(at.conn, at.broker, folder, wanted, ME, datetime.now(UTC))
            list(until_idle(at, self.engine(name), folder, Caller("ada at her desk"), 1, request_id=asked.request_id))

    def at(self) -> closing[Context]:
        return closing(Context(self.house.place.dsn, Broker(self.house.place.kafka)))

    def engine(self, name: str, change=lambda value: value) -> PlainEngine:
        return PlainEngine(load(name), self.house.place.kafka, self.house.place.dsn, change)

    def ask(self, query: str, *values: Any) -> list[tuple]:
        with closing(psycopg2.connect(self.house.place.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(query, values)
            return cur.fetchall()
