"""Measures what a history costs beside an upsert: the same batches, in turns, committed into both.

Usage: versions.py [--keys 20000] [--records 50000] [--batches 6]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from contextlib import closing

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.context.systems import engine_for
from lockstep.core.planning.decisions import Caller
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from per_partition import TOPIC, on_servers

PARTITIONS = 4
KINDS = {"upsert": "Upsert", "history": "History", "ordered": "History"}
DEFINITION = """from lockstep import History, Json, Limits, Pipeline, Upsert
P = Pipeline("{name}", "bench.v1", Json("id string, n bigint, amount decimal(12,2), at timestamp", key="id"),
    target={kind}("public.{name}", key=("id",){order}), limits=Limits(records={records}))
"""
MOMENTS = "valid_from timestamptz not null, valid_until timestamptz, _deleted boolean not null, "
TARGET = """create table public.{name} (id text {key}, n bigint, amount numeric(12,2), at timestamptz, {moments}
    _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null{unique});"""


def main() -> int:
    """Prints rows per second of each commit, and the median ratios to the upsert's."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--keys", type=int, default=20_000)
    options.add_argument("--records", type=int, default=50_000, help="of a batch")
    options.add_argument("--batches", type=int, default=6)
    given = options.parse_args()
    took: dict[str, list[float]] = {name: [] for name in KINDS}
    with on_servers() as (dsn, bootstrap, pipelines):
        _produce(bootstrap, given.records * given.batches, given.keys)
        for name, kind in KINDS.items():
            is_upsert = kind == "Upsert"
            folder = pipelines / name
            folder.mkdir()
            order = ', order_by="at"' if name == "ordered" else ""
            made = DEFINITION.format(name=name, kind=kind, order=order, records=given.records)
            (folder / "__init__.py").write_text(made)
            unique = "" if is_upsert else ", primary key (_stream, _offset, _ordinal)"
            key, moments = ("primary key", "") if is_upsert else ("not null", MOMENTS)
            (folder / "target.sql").write_text(TARGET.format(name=name, key=key, moments=moments, unique=unique))
            with closing(Context(dsn, Broker(bootstrap))) as at:
                migrate_target(at.conn, load(name))
        for number in range(given.batches):
            for name in KINDS if number % 2 else reversed(KINDS):
                one = _commit_seconds(dsn, bootstrap, name)
                took[name] += [one] if number else []  # the first one finds an empty table
    for name, each in took.items():
        rates = [round(given.records / one) for one in each]
        ratios = [ours / theirs for ours, theirs in zip(each, took["upsert"], strict=True)]
        shown = [round(ratio, 2) for ratio in ratios]
        print(
            f"{name:<8}{round(statistics.median(rates)):>9} rows/s   {rates}   ratio {statistics.median(ratios):.2f} {shown}"
        )
    print(f"load {os.getloadavg()}")
    return 0


def _produce(bootstrap: str, records: int, keys: int) -> None:
    """Produces records whose keys come again in each batch, one second apart."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 10_000_000})
    for i in range(records):
        key = i % keys
        moment = f"2026-05-{1 + i // 86_400:02}T{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}Z"
        value = {"id": f"key-{key}", "n": i, "amount": f"{i % 1000}.25", "at": moment}
        producer.produce(TOPIC, json.dumps(value), f"key-{key}", partition=key % PARTITIONS)
        if i % 10_000 == 0:
            producer.poll(0)
    producer.flush(60)


def _commit_seconds(dsn: str, bootstrap: str, name: str) -> float:
    """Returns the seconds of one batch's commit."""
    folder = load(name)
    with closing(Context(dsn, Broker(bootstrap))) as at:
        report = run(at, engine_for(folder, at), folder, Caller("bench"))
    if not report.went_on:
        raise SystemExit(f"{name}: there is no batch")
    return report.seconds["commit"]


if __name__ == "__main__":
    sys.exit(main())
