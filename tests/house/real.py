"""A storm over real Spark and Kafka: one warm driver that is struck, killed and started again, and the checker behind it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from checker import check
from house.storm import AFTER_THE_COMMIT, Figures

if TYPE_CHECKING:
    from drill import Drill

ON_THE_DRIVER = (
    "plan.locked",
    "plan.ranges_written",
    "plan.committed",
    "stage.session_up",
    "stage.done",
    "validate.after",
    "commit.locked",
    "commit.fence_ok",
    "commit.counts_ok",
    "commit.published",
    "commit.ledger_written",
    "commit.done_unacknowledged",
    "announce.before",
)
IN_A_TASK = ("task.read_mid", "task.copy_end", "task.committed")
SECONDS = 180


class RealStorm:
    """Draws from one seed; the driver stays warm unless it is killed."""

    def __init__(self, drill: Drill, seed: int) -> None:
        self.drill = drill
        self.rng = random.Random(seed)  # noqa: S311 - a seed that can be told is the point
        self.figures = Figures()
        self.made = 0
        self.faults = drill.home / "faults"
        self.faults.mkdir(exist_ok=True)
        self._driver: subprocess.Popen[str] | None = None

    def rage(self, commits: int, look_every: int = 15) -> Figures:
        """Until so many committed batches were struck, or the first violation."""
        try:
            rounds = 0
            while len(self.committed_and_struck()) < commits and not self.figures.violations:
                rounds += 1
                self._produce()
                self._act()
                if rounds % look_every == 0:
                    self._look()
            self._look()
            return self.figures
        finally:
            self.end()

    def committed_and_struck(self) -> set[int]:
        return self.figures.struck & self._committed()

    def end(self) -> None:
        """The driver and all that it started are gone."""
        if self._driver is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._driver.pid, 9)
            self._driver.wait()
            self._driver = None

    def _act(self) -> None:
        point, kind = self._draw()
        act = self.rng.choices(["once", "replay"], [75, 25])[0]
        positions = dict(self.drill.ask("select partition, position from lockstep.stream where retired_at is null"))
        begin = {p: self.rng.randint(0, position) for p, position in positions.items()}
        asked = {"act": act, "begin": begin, "end": {p: b + 40 for p, b in begin.items()}}
        if act == "replay" and not positions:
            asked["act"] = "once"
        self.figures.acts[asked["act"]] += 1
        armed = self.faults / f"{point}.{kind}"
        armed.touch()
        self._judge(self._ask(asked))
        if armed.exists():
            armed.unlink()
            return
        self.figures.strikes[point, kind] += 1
        self.figures.struck |= {
            b for (b,) in self.drill.ask("select batch_id from lockstep.batch where state = 'planned'")
        }
        if point in AFTER_THE_COMMIT or point in IN_A_TASK:  # a task that was struck is tried again at once
            self.figures.struck |= {b for (b,) in self.drill.ask("select max(batch_id) from lockstep.commit") if b}
        self._judge(self._ask({"act": "once"}))

    def _draw(self) -> tuple[str, str]:
        if self.rng.random() < 0.3:
            return self.rng.choice(IN_A_TASK), self.rng.choice(["kill", "raise"])
        return self.rng.choice(ON_THE_DRIVER), self.rng.choices(["raise", "kill"], [80, 20])[0]

    def _ask(self, asked: dict) -> dict:
        """The driver's answer; a killed driver gives none, and the next one is started when it is needed."""
        driver = self._running()
        assert driver.stdin
        assert driver.stdout
        driver.stdin.write(json.dumps(asked) + "\n")
        driver.stdin.flush()
        line = driver.stdout.readline()
        if line:
            return json.loads(line)
        self.end()
        return {"kind": "killed"}

    def _running(self) -> subprocess.Popen[str]:
        if self._driver is None:
            tests = Path(__file__).parent.parent
            words = [
                f"{p}={kind}@{self.faults}/{p}.{kind}" for p in ON_THE_DRIVER + IN_A_TASK for kind in ("raise", "kill")
            ]
            self._driver = subprocess.Popen(
                [sys.executable, str(tests / "house" / "real_runner.py")],
                env=os.environ
                | {
                    "LOCKSTEP_DSN": self.drill.dsn,
                    "LOCKSTEP_KAFKA": self.drill.kafka,
                    "LOCKSTEP_PIPELINES": str(self.drill.home),
                    "LOCKSTEP_FAULT": " ".join(words),
                    "SPARK_MASTER": "local[2,2]",  # a task may be tried twice
                    "PYTHONPATH": os.pathsep.join([str(tests.parent / "include"), str(tests)]),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        return self._driver

    def _judge(self, answer: dict) -> None:
        untrue = set(answer.get("committed", [])) - self._committed()
        if untrue:
            self.figures.violations.append(f"told that batches {sorted(untrue)} are committed, and they are not")

    def _committed(self) -> set[int]:
        return {b for (b,) in self.drill.ask("select distinct batch_id from lockstep.commit")}

    def _look(self) -> None:
        """The faults pause, everything is drained, and the checker looks with a consumer of its own."""
        while self._ask({"act": "once"}).get("committed"):
            pass
        drill = self.drill
        self.figures.violations += check(drill.dsn, drill.kafka, "drill", table="public.drill")

    def _produce(self) -> None:
        """Some records, sometimes as a transaction that commits or aborts, sometimes one that is no JSON."""
        end = self.rng.choices([None, "commit", "abort"], [70, 20, 10])[0]
        settings = {"bootstrap.servers": self.drill.kafka, "linger.ms": 0}
        producer = Producer(settings | ({"transactional.id": f"storm-{os.getpid()}"} if end else {}))
        if end:
            producer.init_transactions(20)
            producer.begin_transaction()
        for _ in range(self.rng.randint(1, 60)):
            self.made += 1
            value = json.dumps({"id": f"s{self.made}", "n": self.made}) if self.rng.random() > 0.01 else "{no json"
            producer.produce(self.drill.topic, value, f"k{self.made}")
        producer.flush(20)
        if end:
            producer.commit_transaction(20) if end == "commit" else producer.abort_transaction(20)
