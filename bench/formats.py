"""Compares formats that Python decodes: Debezium's change records with plain JSON, and Protobuf with Avro.

All hold the same rows, and each lands in an empty table by `Upsert`, in turns, by a warm session. Ratios are of the same
round. The CPU time per record of each program is printed, too, because rates say little on a busy machine. Exits 1 when a
goal is missed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fastavro import parse_schema, schemaless_writer

from avro import PROGRAMS, cpu_seconds
from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.context.systems import configured_registry
from lockstep.core.planning.decisions import Caller
from lockstep.engine.spark.engine import SparkEngine
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from per_partition import on_servers

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.fakes.registry import SchemaRegistry, a_registry
from support.inputs.protos import a_file, a_message, classes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTITIONS = 4
COLUMNS = "id bigint, customer string, status string, n bigint, total bigint, paid boolean"
ORIGIN = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
TABLE = f"""create table public.{{name}} (id bigint primary key, customer text, status text, n bigint, total bigint,
    paid boolean{{more}}, {ORIGIN})"""
DEFINITION = """from lockstep import *
P = Pipeline("{name}", "{topic}", {format}, Upsert("public.{name}", key=("id",)), limits=Limits(records=100_000_000))
"""
AVRO_TYPES = {"bigint": "long", "string": "string", "boolean": "boolean"}
FIELDS = [{"name": name, "type": AVRO_TYPES[type_]} for name, type_ in (each.split() for each in COLUMNS.split(", "))]
ROW = {"type": "record", "name": "Row", "fields": FIELDS}
PROTO = ("int64 id = 1", "string customer = 2", "string status = 3", "int64 n = 4", "int64 total = 5", "bool paid = 6")


@dataclass(frozen=True)
class Kind:
    """A format as its definition has it, the topic that its records are on, and what else the table has."""

    format: str
    topic: str
    more: str = ""


KINDS = {
    "json": Kind(f'Json("{COLUMNS}")', "plain.v1"),
    "debezium": Kind(f'Debezium("{COLUMNS}")', "changes.v1"),
    "debezium, by the source": Kind(f'Debezium("{COLUMNS}", order="source")', "changes.v1", ", _source_order bytea"),
    "avro": Kind(f'Avro("{COLUMNS}")', "avro.v1"),
    "protobuf": Kind(f'Protobuf("{COLUMNS}", message="shop.Row")', "proto.v1"),
}
# What each is held against, and the least share of its rate that is the goal.
GOALS = {("debezium", "json"): 0.5, ("debezium, by the source", "json"): 0.5, ("protobuf", "avro"): 1.0}


def rows(records: int) -> Iterator[dict[str, Any]]:
    """Yields so many rows, each of a key of its own."""
    for i in range(records):
        yield {
            "id": i, "customer": f"customer {i % 5_000}", "status": "paid" if i % 3 else "new", "n": i % 1_000,
            "total": i * 7, "paid": i % 3 > 0,
        }  # fmt: skip


def change(row: dict[str, Any]) -> bytes:
    """Returns a change record as Debezium's connector for Postgres writes it without schemas."""
    source = {
        "version": "2.7.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1_777_777_777_000, "snapshot": "false",
        "db": "shop", "sequence": f'["{row["id"] * 100 + 20}","{row["id"] * 100 + 80}"]', "schema": "public",
        "table": "orders", "txId": row["id"], "lsn": row["id"] * 100 + 80, "xmin": None,
    }  # fmt: skip
    return json.dumps(
        {"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1_777_777_777_123, "transaction": None}
    ).encode()


def writers(registry: SchemaRegistry) -> dict[str, Callable[[dict[str, Any]], bytes]]:
    """Returns, by topic, how a row is written."""
    schema, file = parse_schema(ROW), a_file(a_message("Row", *PROTO))
    avro_id, proto_id = registry.register("avro.v1-value", ROW), registry.register_protobuf("proto.v1-value", file)
    make = classes(file)

    def avro(row: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        schemaless_writer(out, schema, row)
        return b"\x00" + avro_id.to_bytes(4, "big") + out.getvalue()

    def proto(row: dict[str, Any]) -> bytes:
        return b"\x00" + proto_id.to_bytes(4, "big") + b"\x00" + bytes(make("shop.Row", **row).SerializeToString())

    return {
        "plain.v1": lambda row: json.dumps(row).encode(),
        "changes.v1": change,
        "avro.v1": avro,
        "proto.v1": proto,
    }


def produce(bootstrap: str, registry: SchemaRegistry, records: int) -> None:
    """Fills each topic with the same rows."""
    topics = writers(registry)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # its futures end with it
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        made.result(20)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 10_000_000})
    for row in rows(records):
        for topic, written in topics.items():
            key = json.dumps({"id": row["id"]})
            producer.produce(topic, written(row), key, partition=row["id"] % PARTITIONS)
        if row["id"] % 5_000 == 0:
            producer.poll(0)
    producer.flush(60)


def seconds(dsn: str, bootstrap: str, pipelines: Path, kind: str, records: int, number: int) -> float:
    """Returns the seconds from plan to announce, over the whole topic into an empty table. Compares sums of the rows."""
    name = f"{kind.replace(', ', '_').replace(' ', '_')}_{number}"
    (pipelines / name).mkdir()
    said = KINDS[kind]
    (pipelines / name / "__init__.py").write_text(DEFINITION.format(name=name, topic=said.topic, format=said.format))
    (pipelines / name / "target.sql").write_text(TABLE.format(name=name, more=said.more))
    loaded = load(name)
    with closing(Context(dsn, Broker(bootstrap))) as at:
        migrate_target(at.conn, loaded)
        engine = SparkEngine(loaded, bootstrap, dsn, registry=configured_registry())
        begin = time.perf_counter()
        run(at, engine, loaded, Caller("bench"))
        took = time.perf_counter() - begin
    with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner")
        cur.execute(f"select count(*), sum(id), sum(n), sum(total), count(*) filter (where paid) from public.{name}")
        found = cur.fetchone()
        cur.execute(f"drop table public.{name}")
    wanted = list(rows(records))
    sums = [Decimal(sum(row[name] for row in wanted)) for name in ("id", "n", "total")]
    if found != (records, *sums, sum(row["paid"] for row in wanted)):
        raise SystemExit(f"{name}: its rows add up to {found}")
    return took


def main() -> int:
    """Prints rows per second of each format, and the median of the rounds' ratios with its goal."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=200_000)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    spent: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with ExitStack() as stack:
        dsn, bootstrap, pipelines = stack.enter_context(on_servers())
        registry = stack.enter_context(a_registry())
        os.environ["LOCKSTEP_REGISTRY"] = registry.url
        produce(bootstrap, registry, given.records)
        for number in range(given.rounds + 1):
            for kind in KINDS if number % 2 else reversed(KINDS):
                before = cpu_seconds(str(pipelines.parent))
                one = seconds(dsn, bootstrap, pipelines, kind, given.records, number)
                after = cpu_seconds(str(pipelines.parent))
                if number:  # the first round warms Spark up
                    took[kind].append(one)
                    spent[kind].append({name: 1e6 * (after[name] - before[name]) / given.records for name in PROGRAMS})
    for kind, each in took.items():
        rates = [round(given.records / one) for one in each]
        cpu = {name: statistics.median(each[name] for each in spent[kind]) for name in PROGRAMS}
        told = ", ".join(f"{name} {each:.1f}" for name, each in cpu.items())
        print(f"{kind:<24}{round(statistics.median(rates)):>9} rows/s   CPU, microseconds a record: {told}   {rates}")
    missed = False
    for (kind, other), goal in GOALS.items():
        ratios = [beside / one for one, beside in zip(took[kind], took[other], strict=True)]
        ratio = statistics.median(ratios)
        missed |= ratio < goal
        work = statistics.median(
            sum(beside.values()) / sum(one.values()) for one, beside in zip(spent[kind], spent[other], strict=True)
        )
        print(
            f"{kind} : {other}  {ratio:.2f} of its rate, {work:.2f} by CPU, goal {goal}   {[round(r, 2) for r in ratios]}"
        )
    print(f"load {os.getloadavg()}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
