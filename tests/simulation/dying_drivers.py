"""Runs a storm with real Spark, Kafka and Postgres. Forked drivers over one warm JVM die at drawn fault points.

Between a driver's death and the next run, the folder may be deployed anew, and an older ledger may take the ledger's
place. A separate broker loses the end of a log now and then.

Usage: dying_drivers.py COMMITS MINUTES SEED, with the drill in the environment. Prints the figures as one JSON
document.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import Refusal
from simulation.child import fork_leaving_garbage
from simulation.faults import FAULTS
from simulation.liveness import DECISION
from simulation.real_acts import Acts
from simulation.real_faults import STREAMS, Contents, Deployments
from simulation.timeline import Timeline
from support.scenes.drill import ask

if TYPE_CHECKING:
    from collections.abc import Callable

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
PARTITIONS = 3
# Of all rounds, where they are switched on.
TRUNCATIONS = float(os.environ.get("LOCKSTEP_REAL_TRUNCATIONS", "0.04"))
DEPLOYMENTS, SWAPS = 0.08, 0.06
KEEPS = 0.3  # of all looks
COMMANDS_IN_A_ROW = 3


class DyingDrivers(Acts):
    """The storm. It draws the events, remembers the contents of the logs, and keeps the JVM warm."""

    def __init__(self, seed: int) -> None:
        from lockstep.engine.spark.session import session  # noqa: PLC0415 - the caller of real_storm needs no Spark

        self.spark = session()
        self.dsn, self.kafka = os.environ["LOCKSTEP_DSN"], os.environ["LOCKSTEP_KAFKA"]
        self.topic, self.home = os.environ["STORM_TOPIC"], Path(os.environ["LOCKSTEP_PIPELINES"])
        self.random = random.Random(seed)  # noqa: S311 - a seed that can be told is the point
        self.strikes: Counter[str] = Counter()
        self.violations: list[str] = []
        self.figures: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()
        self.contents = Contents()
        self.deployments = Deployments(self.home / "drill", self.dsn)
        self.timeline = Timeline(os.environ["STORM_SUPERUSER"], self.dsn)
        self.kept: dict[int, dict[int, tuple]] = {}

    def rage(self, commits: int, minutes: float) -> dict[str, Any]:
        begin = time.monotonic()
        while not self.violations and self.struck < commits and time.monotonic() < begin + 60 * minutes:
            self.round()
            if self.struck % 10 == 0:
                self.look()
        self.look()
        self.timeline.end()
        seconds = round(time.monotonic() - begin)
        return {
            "struck": self.struck,
            "strikes": self.strikes,
            "violations": self.violations,
            "seconds": seconds,
            "figures": self.figures,
            "happened": self.happened,
        }

    @property
    def struck(self) -> int:
        return sum(self.strikes.values())

    def round(self) -> None:
        """Produces new records, strikes a run, and finishes its work with another. Each strike has its own commit."""
        self.produced(RECORDS_A_ROUND)
        point, kind = self.random.choice(CHOICES)
        armed = self.home / f"{point}.{kind}"
        armed.touch()
        said = self.apart(self.run)
        if armed.exists():
            armed.unlink()
            self.violations.append(f"{point}={kind} was never reached: {said}")
        self.something_happens()
        again = self.finished()
        self.strikes[f"{point}={kind}"] += 1
        if "InjectedFault" not in said.get("broken", "InjectedFault") or again.get("decision") != "Idle":
            self.violations.append(f"after {point}={kind}: {said}, then {again}")
        self.violations += self.deployments.violations()
        if self._drawn("truncation", TRUNCATIONS):
            self.truncate()

    def produced(self, records: int) -> None:
        """Adds so many records to the log, and remembers who received them."""
        self.contents.add(self.apart(lambda: self.produce(records))["made"])

    def something_happens(self) -> None:
        """Does something between the driver's death and the next run.

        Tasks of the dead driver may still be writing.
        """
        self.remember()
        if self._drawn("deployment", DEPLOYMENTS):
            self.deployments.deploy(self.random.choice([None, *range(1, 10)]))
        if self.timeline.is_kept and self._drawn("timeline", SWAPS):
            self.timeline.swap()
            self.contents.go_back(self.kept, ask(self.dsn, STREAMS))

    def truncate(self) -> None:
        """Cuts the end of a partition's log below the position, and adds fewer or more records than it lost."""
        partition = self.random.randrange(PARTITIONS)
        end = max(self.contents.logs[partition]) + 1
        self.remember()
        said = self.apart(lambda: self.cut(partition, end - self.random.randint(1, min(40, end - 1))))
        assert "end" in said, f"{partition} could not be cut below {end}: {said}"
        cut = said["end"]
        if cut == end:
            return  # its last batch of records could not be cut, and the log goes on as it was
        self.contents.cut(partition, cut)
        self.produced(RECORDS_A_ROUND * self.random.choice([1, 5]))
        if (said := self.finished()).get("decision") != "Idle":
            self.violations.append(f"after partition {partition} was cut from {end} to {cut}: {said}")

    def finished(self) -> dict[str, Any]:
        """Runs until nothing is left, and decides like a person who types the command that a run names."""
        said = self.apart(self.run)
        for _ in range(COMMANDS_IN_A_ROW):
            named = DECISION.search(said.get("next") or "")
            if named is None or named["act"] != "retire":
                break
            self.remember()
            partition = int(named["partition"])
            self.happened["retire"] += 1
            if "retired" not in (done := self.apart(lambda: self.retire(partition))):  # noqa: B023 - called at once
                return done
            said = self.apart(self.run)
        self.remember()
        return said

    def look(self) -> None:
        found = self.apart(self.checked)
        self.violations += found.get("violations", [f"the checker did not come to an end: {found}"])
        self.figures.update(found.get("figures", {}))
        if "timeline" in FAULTS and self.random.random() < KEEPS:
            self.timeline.keep()
            self.kept = dict(self.contents.streams)

    def remember(self) -> None:
        self.contents.remember(ask(self.dsn, STREAMS))

    def _drawn(self, fault: str, share: float) -> bool:
        drawn = self.random.random() < share and fault in FAULTS
        self.happened[fault] += drawn
        return drawn

    def apart(self, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Runs the act in a forked process. Returns its answer, or {"killed": signal}.

        An act that takes too long is a violation.
        """
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

    def _own_way_to_the_jvm(self) -> None:
        """Leaves the parent's connections to the parent. A driver that is killed must not end them."""
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
