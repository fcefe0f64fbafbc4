"""Compares Avro with JSON of the same columns, in turns, as ratios, with the CPU time per record of each program."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import TYPE_CHECKING

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fastavro import parse_schema, schemaless_writer

from lockstep.core.registry import Registry, registry
from per_partition import AVRO_TOPIC, GUARANTEES, on_servers, produce, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = {
    "type": "record",
    "name": "Bench",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "n", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
KINDS = [(guarantee, form) for guarantee in GUARANTEES for form in ("Json", "Avro")]
PROGRAMS = ("JVM", "Python", "Postgres")
LEAST_TO_JSON = 0.9  # the bound of bench/README.md


def main() -> int:
    """Prints rows per second, and the medians of each round's ratios. Exits 1 if Avro is slower than it should be."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=400_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    took: dict[tuple[str, str], list[float]] = {kind: [] for kind in KINDS}
    spent: dict[tuple[str, str], list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with on_servers() as (dsn, bootstrap, pipelines), one_schema() as known:
        produce(bootstrap, given.records, given.partitions)
        _produce_avro(bootstrap, given.records, given.partitions)
        for number in range(given.rounds + 1):
            for kind in KINDS if number % 2 else reversed(KINDS):
                before = cpu_seconds(str(pipelines.parent))
                one = _seconds(dsn, bootstrap, pipelines, kind, number, known)
                after = cpu_seconds(str(pipelines.parent))
                if number:  # the first round warms Spark up
                    took[kind].append(one)
                    spent[kind].append({name: after[name] - before[name] for name in PROGRAMS})
    print(f"{'':<28}{'rows/s':>9}{'to JSON':>9}   CPU, microseconds a record: {', '.join(PROGRAMS)}")
    is_fast = True
    for kind, each in took.items():
        to_json = statistics.median(other / one for other, one in zip(took[kind[0], "Json"], each, strict=True))
        cpu = [statistics.median(one[name] for one in spent[kind]) for name in PROGRAMS]
        told = "".join(f"{1e6 * one / given.records:>8.2f}" for one in cpu)
        rates = [round(given.records / one) for one in each]
        print(f"{' '.join(kind):<28}{round(statistics.median(rates)):>9}{to_json:>9.2f}   {told}   {rates}")
        is_fast &= to_json >= LEAST_TO_JSON
    print(f"load {os.getloadavg()}")
    return 0 if is_fast else 1


def _seconds(dsn: str, bootstrap: str, pipelines: Path, kind: tuple[str, str], number: int, known: Registry) -> float:
    guarantee, form = kind
    its = known if form == "Avro" else None
    return seconds(dsn, bootstrap, pipelines, guarantee, f"{form.lower()}_{number}", its)


def cpu_seconds(home: str) -> dict[str, float]:
    """Returns the CPU time of each of the programs so far.

    A Python worker that stood idle for a minute is gone, with its time.
    """
    used = dict.fromkeys(PROGRAMS, 0.0)
    here = psutil.Process()
    ours = [here, *here.children(recursive=True)]
    for each in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            words = " ".join(each.cmdline())
            if "-D" in words.split() and home in words and each not in ours:  # Postgres has left home
                ours += [each, *each.children()]
    for each in ours:
        with suppress(psutil.NoSuchProcess):
            if "kafka.Kafka" in each.cmdline():
                continue
            kind = {"java": "JVM", "postgres": "Postgres"}.get(each.name(), "Python")
            used[kind] += sum(each.cpu_times()[:4])
    return used


def _produce_avro(bootstrap: str, records: int, partitions: int) -> None:
    """Produces the records of `produce` in Confluent's wire format."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(AVRO_TOPIC, partitions, 1)])[AVRO_TOPIC].result(20)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 10_000_000})
    schema = parse_schema(SCHEMA)
    for i in range(records):
        out = BytesIO(b"\x00\x00\x00\x00\x01")
        out.seek(5)
        value = {"id": f"record-{i}", "n": i, "amount": Decimal(f"{i % 1000}.25"), "at": AT}
        schemaless_writer(out, schema, value)
        producer.produce(AVRO_TOPIC, out.getvalue(), partition=i % partitions)
        if i % 10_000 == 0:
            producer.poll(0)
    producer.flush(60)


@contextmanager
def one_schema() -> Iterator[Registry]:
    """Yields a registry that knows the schema by each id."""

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"schema": json.dumps(SCHEMA)}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keeps requests out of the output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield registry(f"http://127.0.0.1:{server.server_port}", {}, str)
        server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
