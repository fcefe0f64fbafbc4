"""Measures runs that start their own Spark.

These are `lockstep run`, and `spark-submit` as an Airflow task does it, with its settings and without.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.adapters import java
from lockstep.adapters.kafka.broker import Broker
from lockstep.context.submitted import submitted_for
from lockstep.core.planning.decisions import Caller, TaskRun
from lockstep.core.settings import ENGINE
from lockstep.dev.setup import class_data
from lockstep.dev.setup.spark_submit import spark_submit
from lockstep.engine.spark import jvm
from lockstep.installed import CHECKOUT
from lockstep.steps.attempt.pick_up import pick_up
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.validate import validate
from lockstep.steps.context import Context
from peers.contender import APPEND, OURS, Task
from peers.found import COLD, Run
from peers.meter import Meter
from peers.ours import defined, settled
from peers.records import compare, drop_table, settle
from peers.telling import say
from peers.worker import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.core.pipeline.folder import PipelineFolder
    from peers.contender import Place

SUBMITTED, FAT = "spark-submit, Spark reads", "spark-submit, Spark reads, with UI and without the archive of classes"
BY_DRIVER, COMMAND = "spark-submit, the driver reads", "lockstep run, the driver reads"
JOB = CHECKOUT / "spark_jobs" / "stage_batch.py"
BY_SPARK: dict[str, Any] = {ENGINE: "spark"}
PATIENCE = 300


def cold(place: Place, topic: str, records: int, partitions: int, rounds: int) -> Iterator[Run]:
    """Runs each way once a round, plan and commit included.

    The first runs are measured, too, because nothing stays warm but files.
    """
    settled(place)
    class_data.ensure_class_data(say)
    ways: dict[str, Callable[[_Cold], None]] = {
        SUBMITTED: lambda one: one.submitted(fat=False, **BY_SPARK),
        FAT: lambda one: one.submitted(fat=True, **BY_SPARK),
        BY_DRIVER: lambda one: one.submitted(fat=False, **{ENGINE: "process"}),
        COMMAND: _Cold.commanded,
    }
    for turn in range(1, rounds + 1):
        for number, (name, way) in enumerate(ways.items() if turn % 2 else reversed(ways.items())):
            task = Task(topic, f"cold{turn}_{number}", records, partitions, APPEND, (("guarantee", "PerBatch"),))
            one = _Cold(place, task, defined(place, task))
            settle(place)
            used = _used_by_children()
            with Meter((os.getpid(),), place.postmaster) as meter:
                begin = time.perf_counter()
                way(one)
                seconds = time.perf_counter() - begin
            found = compare(place, task)
            drop_table(place, task)
            # The command's JVM outlives it by a moment, and is no child of ours.
            cpu = 0.0 if name == COMMAND else _used_by_children() - used
            written = {"lost": found.lost, "doubled": found.doubled}
            yield Run(COLD, name, OURS, APPEND, turn, records, records, seconds, cpu=cpu, peak=meter.peak, **written)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Cold:
    place: Place
    task: Task
    loaded: PipelineFolder

    def submitted(self, *, fat: bool, **more: str) -> None:
        """Plans, submits, validates and commits. `fat` is a driver that serves its pages and loads class by class."""
        run = TaskRun("bench", self.task.table)
        caller = Caller(run.owner or "bench", task_run=run)
        options = jvm.driver_options()
        conf = {"spark.driver.extraJavaOptions": options.partition(" -XX:SharedArchiveFile")[0] if fat else options}
        conf |= {"spark.ui.enabled": "true"} if fat else {}
        with closing(Context(self.place.dsn, Broker(self.place.bootstrap))) as at:
            planned = plan(at.conn, at.broker, self.loaded, caller, datetime.now(UTC))
            batch = planned.batch_id or 0
            words = [str(JOB), self.task.table, str(batch), *submitted_for(caller)]
            self._called(spark_submit("local[*]", conf, *words), more)
            attempt = pick_up(at.conn, batch, run).attempt
            validate(at, self.loaded, attempt)
            commit(at, self.loaded, attempt)

    def commanded(self) -> None:
        """Runs the command that a person types."""
        command = [str(Path(sys.executable).with_name("lockstep")), "run", self.task.table]
        self._called(command, {ENGINE: "process"})

    def _called(self, command: list[str], more: dict[str, str]) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"} | java.exports()
        environ |= {"LOCKSTEP_DSN": self.place.dsn, "LOCKSTEP_KAFKA": self.place.bootstrap, **more}
        environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        log = self.place.home / "cold.log"
        with log.open("ab") as out:
            done = subprocess.run(
                command, stdout=out, stderr=out, env=environ, cwd=self.place.home, timeout=PATIENCE, check=False
            )
        if done.returncode:
            said = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise Failed(f"{Path(command[0]).name} ended with {done.returncode}: {said}")


def _used_by_children() -> float:
    """Returns the CPU seconds of children that have ended.

    Warm sessions, which have not, are children, too.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
