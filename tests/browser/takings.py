"""Makes a shop's takings by hour: windows with corrections and late records, a feed, and a relay that is behind."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.adapters.processes import this_owner
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.feed.relay import relay
from lockstep.steps.windows.emit import emit
from support.servers.scheduled import wait_for
from support.servers.servers import make_topic

if TYPE_CHECKING:
    from browser.shop import Shop

NAME, TOPIC, SINK, PARTITIONS = "takings", "shop.takings", "shop.takings.by-hour", 4
DEFINITION = f"""
from lockstep.core.pipeline.definition import Count, EventTime, Feed, Json, Pipeline, Sum, Topic, Tumbling, Windows
P = Pipeline(
    name="{NAME}", topic="{TOPIC}", format=Json("shop string, amount decimal(12,2), at timestamp"),
    event_time=EventTime("at", delay="2 minutes"), owner="shop",
    target=Windows("public.{NAME}", window=Tumbling("1 hour"), key=("shop",), lateness="3 hours",
        totals=(Count("sales"), Sum("revenue", of="amount")), feed=Feed(to=Topic("{SINK}"))),
)
"""
TABLE = f"""create table if not exists public.{NAME} (window_start timestamptz, window_end timestamptz not null, shop text,
    sales bigint not null, revenue numeric, _revision int not null, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (window_start, shop));
"""
DAG_FILE = f"""
from lockstep.adapters.folders import load
from lockstep.airflow import dag_for

dag = dag_for(load("{NAME}").pipeline, is_paused_upon_creation=True)
"""
HOURS = 30
SHOPS = ("North", "South", "<East>", "West & more")


def take(shop: Shop) -> None:
    """Makes the pipeline and everything that its pages must show."""
    place = shop.house.place
    make_topic(place.kafka, TOPIC, PARTITIONS)
    make_topic(place.kafka, SINK, 3)
    folder = place.pipelines / NAME
    folder.mkdir()
    (folder / "__init__.py").write_text(DEFINITION)
    (folder / "target.sql").write_text(TABLE)
    with closing(connect(place.dsn)) as conn:
        migrate_target(conn, load(NAME))
    (place.dags / f"{NAME}.py").write_text(DAG_FILE)
    shop.topics[NAME] = TOPIC
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS)
    for hour in range(HOURS):
        moment = begin + timedelta(hours=hour)
        for partition in range(PARTITIONS):
            held = partition == 2 and hour > HOURS - 4  # one partition falls silent, and holds the watermark
            _sell(place.kafka, partition, [] if held else [moment + timedelta(minutes=7 * n) for n in range(8)])
        if hour % 7 == 3:
            _sell(place.kafka, 1, [moment - timedelta(hours=2)] * 3)  # within the lateness: a correction
        if hour % 11 == 8:
            _sell(place.kafka, 3, [moment - timedelta(hours=6)] * 2)  # too late
        shop.run(NAME)
        _show(shop, sends=hour < HOURS - 3)
    with closing(connect(place.dsn)) as conn, transaction(conn, OWNER) as cur:
        cur.execute("select lockstep.manual_change(%s, %s)", (f"public.{NAME}", "a till that was counted twice"))
        cur.execute("delete from public.takings where shop = 'South' and window_start = %s", (begin,))
    wait_for(lambda: NAME in shop.house.api.dags(), "the DAG is parsed")


def _show(shop: Shop, *, sends: bool) -> None:
    with shop.at() as at:
        pipeline = load(NAME).pipeline
        emit(at.conn, at.broker, pipeline)
        if sends:
            relay(at, pipeline, pipeline.first, this_owner())


def _sell(kafka: str, partition: int, moments: list[datetime]) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for number, moment in enumerate(moments):
        sale: dict[str, Any] = {"shop": SHOPS[number % len(SHOPS)], "amount": 2.5 + number, "at": moment.isoformat()}
        producer.produce(TOPIC, json.dumps(sale).encode(), b"k", partition)
    assert producer.flush(30) == 0
