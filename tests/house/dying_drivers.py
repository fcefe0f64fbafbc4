"""A storm with real Spark, Kafka and Postgres: forked drivers over one warm JVM die at drawn fault points.

Usage: dying_drivers.py COMMITS MINUTES SEED, with the drill in the environment; prints the figures as one JSON document.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from checker import at_end, look
from contents import as_it_is
from house.child import fork_leaving_garbage
from lockstep.adapters.folders import load
from lockstep.adapters.kafka import Broker
from lockstep.adapters.processes import this_owner
from lockstep.core.decisions import Caller
from lockstep.core.errors import Refusal
from lockstep.steps.reap import reap
from lockstep.steps.run import until_idle
from lockstep.steps.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable

    from drill import Drill

IN_DRIVERS = (
    *("plan.committed", "stage.session_up", "stage.done", "validate.after"),  # before these no batch is there to strike
    *("commit.locked", "commit.fence_ok", "commit.counts_ok", "commit.published", "commit.ledger_written"),
    *("commit.done_unacknowledged", "announce.before"),
)
IN_TASKS = ("task.read_mid", "task.copy_mid", "task.copy_end", "task.committed")
CHOICES = [(point, kind) for point in IN_DRIVERS for kind in ("kill", "term", "raise")]
CHOICES += [(point, kind) for point in IN_TASKS for kind in ("kill", "raise")] * 3
SECONDS_AN_ACT = 120
RECORDS_A_ROUND = 30


def real_storm(drill: Drill, seed: int, *, commits: int = 10**9, minutes: float = 10**6) -> dict[str, Any]:
    """Rages until so many commits were struck, or for so long; returns all that `rage` counts."""
    environ = os.environ | {
        "LOCKSTEP_DSN": drill.dsn,
        "LOCKSTEP_KAFKA": drill.kafka,
        "LOCKSTEP_PIPELINES": str(drill.home),
        "SPARK_MASTER": "local[2,3]",
        "STORM_TOPIC": drill.topic,
        "LOCKSTEP_FAULT": " ".join(f"{p}={k}@{drill.home}/{p}.{k}" for p, k in sorted(set(CHOICES))),
        "PYTHONPATH": os.pathsep.join(str(Path(__file__).parents[n] / name) for n, name in ((2, "include"), (1, ""))),
    }
    command = [sys.executable, __file__, str(commits), str(minutes), str(seed)]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True)
    drill.started.append(process.pid)  # the drill ends the group, whatever becomes of us
    said, _ = process.communicate()
    assert process.returncode == 0, f"the storm broke, seed {seed}"
    return json.loads(said)


class DyingDrivers:
    """Everything that speaks to Kafka or dies does so in a process of its own; this one keeps the JVM warm."""

    def __init__(self, seed: int) -> None:
        from lockstep.adapters.spark_session import session  # noqa: PLC0415 - the caller of real_storm needs no Spark

        self.spark = session()
        self.dsn, self.kafka = os.environ["LOCKSTEP_DSN"], os.environ["LOCKSTEP_KAFKA"]
        self.topic, self.home = os.environ["STORM_TOPIC"], Path(os.environ["LOCKSTEP_PIPELINES"])
        self.random = random.Random(seed)  # noqa: S311 - a seed that can be told is the point
        self.strikes: Counter[str] = Counter()
        self.violations: list[str] = []
        self.figures: Counter[str] = Counter()
        self.made = 0

    def rage(self, commits: int, minutes: float) -> dict[str, Any]:
        begin = time.monotonic()
        while not self.violations and self.struck < commits and time.monotonic() < begin + 60 * minutes:
            self.round()
            if sum(self.strikes.values()) % 10 == 0:
                self.look()
        self.look()
        seconds = round(time.monotonic() - begin)
        return {"struck": self.struck, "strikes": self.strikes, "violations": self.violations, "seconds": seconds} | {
            "figures": self.figures
        }

    @property
    def struck(self) -> int:
        return sum(self.strikes.values())

    def round(self) -> None:
        """New records, a run that is struck, and one that finishes what it left; each strike has its own commit."""
        self.apart(self.produce)
        point, kind = self.random.choice(CHOICES)
        armed = self.home / f"{point}.{kind}"
        armed.touch()
        said = self.apart(self.run)
        again = self.apart(self.run)
        if armed.exists():
            armed.unlink()
            self.violations.append(f"{point}={kind} was never reached: {said}")
        self.strikes[f"{point}={kind}"] += 1
        if "InjectedFault" not in said.get("broken", "InjectedFault") or "broken" in again or "refused" in again:
            self.violations.append(f"after {point}={kind}: {said}, then {again}")

    def look(self) -> None:
        found = self.apart(self.checked)
        self.violations += found.get("violations", [f"the checker did not come to an end: {found}"])
        self.figures.update(found.get("figures", {}))

    def apart(self, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The act in a forked process: what it says, or {"killed": signal}. One that takes too long is a violation."""
        read, write = os.pipe()
        pid = fork_leaving_garbage()
        if not pid:
            os.close(read)
            self._own_way_to_the_jvm()
            try:
                said = act()
            except Refusal as refusal:
                said = {"refused": str(refusal)}
            except BaseException as error:  # noqa: BLE001 - the child's end is told, whatever it is
                said = {"broken": f"{type(error).__name__}: {error}"}
            os.write(write, json.dumps(said).encode())
            os._exit(0)
        os.close(write)
        late = threading.Timer(SECONDS_AN_ACT, os.kill, (pid, signal.SIGABRT))
        late.start()
        with os.fdopen(read) as answer:
            told = answer.read()
        _, status = os.waitpid(pid, 0)
        late.cancel()
        if told:
            return json.loads(told)
        name = signal.Signals(os.WTERMSIG(status)).name
        return {"broken": f"hung in {act.__name__}"} if name == "SIGABRT" else {"killed": name}

    def produce(self) -> dict[str, Any]:
        producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 5})
        for n in range(RECORDS_A_ROUND):
            stamp = f"{time.time_ns()}-{n}"
            checksum = zlib.crc32(stamp.encode()) >> 1  # n is a 4-byte integer
            producer.produce(self.topic, json.dumps({"id": stamp, "n": checksum}), stamp)
        return {"left": producer.flush(20)}

    def run(self) -> dict[str, Any]:
        from lockstep.adapters.spark import SparkEngine  # noqa: PLC0415 - as above

        at, folder = Surroundings(self.dsn, Broker(self.kafka)), load("drill")
        engine = SparkEngine(folder, self.kafka, self.dsn)
        reports = list(until_idle(at, engine, folder, Caller(this_owner(), take_over=True), wait=30))
        return {"decision": type(reports[-1].decision).__name__}

    def checked(self) -> dict[str, Any]:
        at = Surroundings(self.dsn, Broker(self.kafka))
        for _ in range(20):  # a dead driver's tasks may still hold their table
            if not reap(at.conn).held:
                break
        at.close()
        least = RECORDS_A_ROUND * self.struck
        found = look(
            self.dsn, self.kafka, "drill", table="public.drill", becomes=as_it_is, unique="id", least=least, rest=True
        )
        return {
            "violations": found.violations + at_end(self.dsn, self.kafka, "drill"),
            "figures": found.figures,
        }

    def _own_way_to_the_jvm(self) -> None:
        """Connections of the parent are left to it; a driver that is killed must not take them along."""
        client = self.spark.sparkContext._gateway._gateway_client  # noqa: SLF001 - nothing public forks a driver
        self.parents = (client.deque, client.thread_connection)
        client.deque, client.thread_connection = deque(), threading.local()


def main() -> int:
    storm = DyingDrivers(int(sys.argv[3]))
    figures = storm.rage(int(sys.argv[1]), float(sys.argv[2]))
    sys.stdout.write(json.dumps(figures))
    sys.stdout.flush()
    storm.spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
