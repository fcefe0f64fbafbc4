"""Compares the guarantee per partition with the guarantee per batch, in turns, as a ratio.

Both have the same topic and the same table's shape.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import psycopg2
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.planning.decisions import Caller
from lockstep.engine.spark.engine import SparkEngine
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from peers.servers import servers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lockstep.core.registry import Registry

TOPIC, AVRO_TOPIC = "bench.v1", "bench.avro"
GUARANTEES = ("PerBatch", "PerPartition")
DEFINITION = """from lockstep.core.pipeline.definition import Append, Json, Limits, PerBatch, PerPartition, Pipeline
P = Pipeline("{name}", "bench.v1", Json("id string, n bigint, amount decimal(12,2), at timestamp"), Append("public.{name}"),
    limits=Limits(records=100_000_000), guarantee={guarantee}())
"""
TARGET = """create table public.{name} (id text, n bigint, amount numeric(12,2), at timestamptz, _stream int4 not null,
    _offset int8 not null, _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));"""


def produce(
    bootstrap: str, records: int, partitions: int, bad: int = 0, *, anew: bool = True, topic: str = TOPIC
) -> None:
    """Produces so many records, equally many in each partition. `bad` of a million are no JSON."""
    if anew:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 10_000_000})
    for i in range(records):
        value = {"id": f"record-{i}", "n": i, "amount": f"{i % 1000}.25", "at": "2026-05-01T12:00:00Z"}
        is_bad = i * bad // 1_000_000 != (i + 1) * bad // 1_000_000
        producer.produce(topic, "bad" if is_bad else json.dumps(value), partition=i % partitions)
        if i % 10_000 == 0:
            producer.poll(0)
    producer.flush(60)


def seconds(
    dsn: str, bootstrap: str, folder: Path, guarantee: str, number: int | str, registry: Registry | None = None
) -> float:
    """Returns the seconds from plan to announce, over the whole topic into an empty table, by a warm session.

    With a registry, the records are Avro in a topic of their own.
    """
    name = f"{guarantee.lower()}_{number}"
    (folder / name).mkdir()
    text = DEFINITION.format(name=name, guarantee=guarantee)
    text = text.replace("Json", "Avro").replace(TOPIC, AVRO_TOPIC) if registry else text
    (folder / name / "__init__.py").write_text(text)
    (folder / name / "target.sql").write_text(TARGET.format(name=name))
    loaded = load(name)
    with closing(connect(dsn)) as conn:
        migrate_target(conn, loaded)
    at = Context(dsn, Broker(bootstrap))
    begin = time.perf_counter()
    run(at, SparkEngine(loaded, bootstrap, dsn, registry=registry), loaded, Caller("bench"))
    took = time.perf_counter() - begin
    at.close()
    with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner")
        cur.execute(f"drop table public.{name}")
    return took


@contextmanager
def on_servers() -> Iterator[tuple[str, str, Path]]:
    """Yields a ledger, a broker, and a folder for pipelines, which are gone after the block."""
    with servers() as place:
        pipelines = place.home / "pipelines"
        pipelines.mkdir()
        os.environ["LOCKSTEP_PIPELINES"] = str(pipelines)
        yield place.dsn, place.bootstrap, pipelines


def main() -> int:
    """Prints rows per second of both and the median of the pairs' ratios."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=400_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    took: dict[str, list[float]] = {name: [] for name in GUARANTEES}
    with on_servers() as (dsn, bootstrap, pipelines):
        produce(bootstrap, given.records, given.partitions)
        for number in range(given.rounds + 1):
            for name in GUARANTEES if number % 2 else reversed(GUARANTEES):
                one = seconds(dsn, bootstrap, pipelines, name, number)
                took[name] += [one] if number else []  # the first round warms Spark up
    for name, each in took.items():
        rates = [round(given.records / one) for one in each]
        print(f"{name:<14}{round(statistics.median(rates)):>10} rows/s   {rates}")
    pairs = [whole / ranged for whole, ranged in zip(*(took[name] for name in GUARANTEES), strict=True)]
    print(
        f"PerPartition : PerBatch  {statistics.median(pairs):.2f}   {[round(p, 2) for p in pairs]}  load {os.getloadavg()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
