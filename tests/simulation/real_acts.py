"""Defines the acts of the storm with real parts.

Each has its own process, because it speaks to Kafka or Spark, or may die.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.processes import this_owner
from lockstep.core.planning.decisions import Blocked, Caller
from lockstep.steps.batch.run import until_idle
from lockstep.steps.changes.retire import retire
from lockstep.steps.context import Context
from lockstep.steps.upkeep.reap import reap
from simulation.acts import ME
from support.oracles.checker import at_end, look
from support.oracles.contents import as_it_is
from support.servers.own_broker import OwnBroker

if TYPE_CHECKING:
    from simulation.real_faults import Contents


class Acts:
    """Acts that each answer with a small document. The storm gives the addresses and the contents of the logs."""

    dsn: str
    kafka: str
    topic: str
    contents: Contents

    def produce(self, records: int) -> dict[str, Any]:
        made: list[tuple[int, int, str, str]] = []
        producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 5})
        for n in range(records):
            stamp = f"{time.time_ns()}-{n}"
            checksum = zlib.crc32(stamp.encode()) >> 1  # n is a 4-byte integer
            value = json.dumps({"id": stamp, "n": checksum})
            producer.produce(
                self.topic,
                value,
                stamp,
                on_delivery=lambda _, sent, kv=(stamp, value): made.append((sent.partition(), sent.offset(), *kv)),
            )
        if producer.flush(60) or len(made) < records:
            raise AssertionError(f"{len(made)} of {records} records were taken")
        return {"made": made}

    def cut(self, partition: int, offset: int) -> dict[str, Any]:
        OwnBroker(Path(os.environ["STORM_BROKER"])).cut(self.topic, offset, partition)
        with closing(Consumer({"bootstrap.servers": self.kafka, "group.id": "storm"})) as consumer:
            return {"end": consumer.get_watermark_offsets(TopicPartition(self.topic, partition), timeout=30)[1]}

    def retire(self, partition: int) -> dict[str, Any]:
        at = Context(self.dsn, Broker(self.kafka))
        return {"retired": len(retire(at.conn, at.broker, load("drill").pipeline, partition, ME).retired)}

    def run(self) -> dict[str, Any]:
        from lockstep.engine.spark.engine import SparkEngine  # noqa: PLC0415 - as above

        at, folder = Context(self.dsn, Broker(self.kafka)), load("drill")
        engine = SparkEngine(folder, self.kafka, self.dsn)
        reports = list(until_idle(at, engine, folder, Caller(this_owner(), take_over=True), wait=30))
        last = reports[-1].decision
        return {"decision": type(last).__name__} | (
            {"reason": last.reason, "next": last.next_command} if isinstance(last, Blocked) else {}
        )

    def checked(self) -> dict[str, Any]:
        at = Context(self.dsn, Broker(self.kafka))
        for _ in range(20):  # a dead driver's tasks may still hold their table
            if not reap(at.conn).held:
                break
        at.close()
        found = look(
            self.dsn,
            self.contents.visible,
            "drill",
            table="public.drill",
            becomes=as_it_is,
            unique="id",
            least=self.contents.records,
            rest=True,
        )
        return {
            "violations": found.violations + at_end(self.dsn, self.kafka, "drill"),
            "figures": found.figures,
        }
