"""Submits a drill to a cluster whose Spark tries tasks again, or twice at once, and says what must come of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from crash.per_partition import by_partition
from support.oracles.spark_events import events
from support.scenes.drill import RUNNER, TESTS

# A second copy of a task may only begin on another host than the first.
HOSTS = ("127.0.0.1", "127.0.0.2")
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.task.duration.threshold": "5s",
}
# A try dies with its rows written, or hangs for good: before its COMMIT, or before it can report it.
TRIES = [
    ("batch", "task.committed=kill"),
    ("batch", "task.copy_end=stop"),
    ("batch", "task.committed=stop"),
    ("partition", "range.done_unacknowledged=kill"),
    ("partition", "range.done_unacknowledged=stop"),
]


def tried_twice(drill, log: Path, unit: str, fault: str, master: str, mode: str = "client", **settings: str) -> None:
    """Runs a batch in which one task meets the fault. Its one attempt commits, and the table has each record once."""
    by_partition(drill) if unit == "partition" else None
    armed = drill.home / "armed"
    armed.touch()
    log.mkdir()
    its = SPECULATION if fault.endswith("stop") else {}
    given = {**its, **settings, "spark.executorEnv.LOCKSTEP_FAULT": f"{fault}@{armed}"}
    given |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": log.as_uri()}

    done = submitted(drill, "--master", master, "--deploy-mode", mode, *confs(given))

    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert not armed.exists(), "the fault never reached an executor"
    ends = [event for event in events(log, "TaskEnd") if event["Task End Reason"]["Reason"] == "Success"]
    second = [end["Task Info"]["Speculative"] for end in ends if end["Task Info"]["Attempt"]]
    assert bool(its) in second, "a retry after a kill, and a copy of a task that hangs"
    assert drill.ask("select state, count(*) from lockstep.attempt group by 1") == [("committed", 1)]
    assert drill.ask("select count(*), count(distinct id), sum(n)::int from public.drill") == [(150, 150, 11175)]
    assert drill.violations() == []


def servers_of(drill) -> dict[str, str]:
    """Returns the environment of a driver."""
    return {
        "LOCKSTEP_DSN": drill.dsn,
        "LOCKSTEP_KAFKA": drill.kafka,
        "LOCKSTEP_PIPELINES": str(drill.home),
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "include"), str(TESTS)]),
    }


def confs(settings: dict[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def submitted(drill, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("spark-submit")), *options, str(RUNNER), "drill", "--spark"]
    environ = os.environ | servers_of(drill) | {"SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=600)
