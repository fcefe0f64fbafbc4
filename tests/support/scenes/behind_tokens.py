"""Makes a pipeline over a topic behind a listener that asks for tokens, and types its commands."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from support.oracles.checker import at_end, check
from support.servers.servers import make_topic

if TYPE_CHECKING:
    from support.servers.token_broker import TokenBroker

PIPELINE = """
from lockstep.core.pipeline.definition import Append, Feed, Json, Pipeline, Topic
P = Pipeline(name="{name}", topic="{topic}", format=Json("id string, n int"), target=Append("public.{name}"{feed}))
"""
TARGET = """
create table if not exists public.{name} (id text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));
"""
TRANSFORM = "def transform(records):\n    return records\n"  # Spark reads then
DOOR = str(Path(sys.executable).with_name("lockstep"))


class BehindTokens:
    """A pipeline over a topic behind the listener that asks for tokens."""

    def __init__(self, broker: TokenBroker, dsn: str, home: Path) -> None:
        self.broker, self.dsn, self.home = broker, dsn, home
        self.topics: dict[str, str] = {}

    def make(self, name: str, *, records: int = 60, size: int = 0, spark: bool = False, feed: str = "") -> str:
        topic = f"{name}-{secrets.token_hex(4)}"
        make_topic(self.broker.plain, topic, partitions=2)
        self.topics[name] = topic
        self.produce(name, records, size)
        to = f', feed=Feed(to=Topic("{feed}", partitions=2))' if feed else ""
        folder = self.home / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(PIPELINE.format(name=name, topic=topic, feed=to))
        (folder / "target.sql").write_text(TARGET.format(name=name))
        if spark:
            (folder / "transform.py").write_text(TRANSFORM)
        assert self("migrate", name).returncode == 0
        return name

    def produce(self, name: str, records: int = 60, size: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.broker.plain})
        for i in range(records):
            producer.produce(self.topics[name], json.dumps({"id": f"r{i}" + "x" * size, "n": i}), f"k{i}")
            producer.poll(0)
        producer.flush(20)

    def __call__(
        self, *command: str, options: dict[str, str] | None = None, **environ: str
    ) -> subprocess.CompletedProcess:
        """Types a command, with these options of the client instead of its own."""
        return subprocess.run(
            [DOOR, *command],
            env=self.environ(options) | environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def begin(self, *command: str) -> subprocess.Popen:
        pipe = subprocess.PIPE
        return subprocess.Popen([DOOR, *command], env=self.environ(), stdout=pipe, stderr=pipe, text=True)

    def environ(self, options: dict[str, str] | None = None) -> dict[str, str]:
        return os.environ | {
            "LOCKSTEP_DSN": self.dsn,
            "LOCKSTEP_PIPELINES": str(self.home),
            "LOCKSTEP_KAFKA": self.broker.address,
            "LOCKSTEP_KAFKA_CONFIG": json.dumps(self.broker.options() if options is None else options),
            "TMPDIR": str(self.home.parent),
            "SPARK_MASTER": "local[2]",
        }

    def faults(self, name: str) -> list[str]:
        """Returns what is not as it is in Kafka: records that are missing, doubled or wrong, and offsets left."""
        table = f"public.{name}"
        return check(self.dsn, self.broker.plain, name, table=table) + at_end(self.dsn, self.broker.plain, name)
