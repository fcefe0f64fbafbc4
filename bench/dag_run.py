"""Measures a DAG run on a warm Spark, from its scheduling to its commit: our part, and Airflow's.

Airflow's own records say when a run and its tasks were queued, started and ended. The time of one of our steps is its
metric `lockstep.step`.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import statistics
import sys
import time
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.dev.servers import airflow, spark_connect
from lockstep.dev.servers.airflow_settings import AirflowPlace
from lockstep.dev.setup import jars
from lockstep.ledger.migrate import migrate_target
from per_partition import DEFINITION, TARGET, on_servers, produce

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lockstep.dev.servers.airflow import Airflow

NAME = "dag_run"
STEPS = ("plan", "stage", "validate", "commit")
TASKS = {"each": STEPS, "one": ("run",)}  # of a run until its commit. That of one task announces, too.
DAG_FILE = f"""
from lockstep.adapters.folders import load
from lockstep.airflow import dag_for

dag = dag_for(load("{NAME}").pipeline, schedule=None, is_paused_upon_creation=False, tasks="TASKS")
"""
SAID = re.compile(rb"lockstep\.step,.*?step=(\w+)\S*?:([\d.]+)\|ms")
GOAL, OURS = 6.0, 1.5
PATIENCE = 300


def main() -> int:
    """Prints the median seconds of each part. Returns 1 when a run takes longer than its goal."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=1_000, help="of each run")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--tasks", choices=TASKS, default="each", help="of a run")
    given = options.parse_args()
    with on_servers() as (dsn, bootstrap, pipelines), closing(socket.socket(type=socket.SOCK_DGRAM)) as metrics:
        metrics.bind(("127.0.0.1", 0))
        metrics.setblocking(False)  # noqa: FBT003 - the standard library's signature
        produce(bootstrap, given.records, 4)
        _pipeline(dsn, pipelines, given.tasks)
        home = pipelines.parent
        warm = spark_connect.start(home)
        try:
            place = AirflowPlace(
                dsn, bootstrap, home / "dags", home / "plugins", pipelines, jars.folder(),
                spark_remote=warm.remote, more=_told(metrics.getsockname()[1]),
            )  # fmt: skip
            house = airflow.start(home, place)
            runs = list(_runs(house, metrics, bootstrap, given.rounds, given.records, TASKS[given.tasks]))
        finally:
            if left := airflow.running(home):
                airflow.stop(left)
            if server := spark_connect.running(home):
                spark_connect.stop(server)
    return _show(runs[1:])  # the first one finds everything cold


def _runs(
    house: Airflow, metrics: socket.socket, bootstrap: str, rounds: int, records: int, names: tuple[str, ...]
) -> Iterator[dict[str, float]]:
    api = house.api()
    _until(lambda: NAME in api.dags())
    for number in range(rounds + 1):
        if number:
            produce(bootstrap, records, 4, anew=False)
        _heard(metrics)
        run_id, ours = api.trigger(NAME), {}
        _until(lambda: ours.update(_heard(metrics)) or _state(house, run_id) in {"success", "failed"})  # noqa: B023
        if _state(house, run_id) != "success":
            raise SystemExit(f"{run_id} failed: {house.folder}")
        (run,) = [each for each in api.runs(NAME) if each["dag_run_id"] == run_id]
        tasks = api.tasks(NAME, run_id)
        begin, whole = _at(run["queued_at"]), {}
        whole["scheduled to committed"] = (_at(tasks[names[-1]]["end_date"]) - begin).total_seconds()
        whole["until the first task is queued"] = (_at(tasks[names[0]]["queued_when"]) - begin).total_seconds()
        whole["queued"] = sum(_span(tasks[name], "queued_when", "start_date") for name in names)
        whole["between two tasks"] = sum(
            (_at(tasks[later]["queued_when"]) - _at(tasks[name]["end_date"])).total_seconds()
            for name, later in pairwise(names)
        )
        whole["in tasks"] = sum(_span(tasks[name], "start_date", "end_date") for name in names)
        whole["of that ours"] = sum(ours[name] for name in STEPS)
        whole |= {f"  {name}": ours[name] for name in STEPS}
        whole |= {f"  {name}, the task": _span(tasks[name], "start_date", "end_date") for name in names}
        yield whole


def _show(runs: list[dict[str, float]]) -> int:
    medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    for name, seconds in medians.items():
        print(f"{name:<34}{seconds:>7.2f} s")
    print(f"load {os.getloadavg()}")
    return int(medians["scheduled to committed"] > GOAL or medians["of that ours"] > OURS)


def _pipeline(dsn: str, pipelines: Path, tasks: str) -> None:
    home = pipelines.parent
    for folder in (pipelines / NAME, home / "dags", home / "plugins"):
        folder.mkdir()
    (pipelines / NAME / "__init__.py").write_text(DEFINITION.format(name=NAME, guarantee="PerBatch"))
    (pipelines / NAME / "target.sql").write_text(TARGET.format(name=NAME))
    (home / "dags" / f"{NAME}.py").write_text(DAG_FILE.replace("TASKS", tasks))
    with closing(connect(dsn)) as conn:
        migrate_target(conn, load(NAME))


def _told(port: int) -> dict[str, str]:
    settings = {"STATSD_ON": "True", "STATSD_PORT": str(port), "STATSD_INFLUXDB_ENABLED": "True"}
    return {f"AIRFLOW__METRICS__{name}": value for name, value in settings.items()}


def _heard(metrics: socket.socket) -> dict[str, float]:
    """Returns the seconds of each step since the last call.

    It is called often, because Airflow sends more than a socket keeps.
    """
    found: dict[str, float] = {}
    while True:
        try:
            said = metrics.recv(65_536)
        except BlockingIOError:
            return found
        for step, milliseconds in SAID.findall(said):
            found[step.decode()] = float(milliseconds) / 1000


def _state(house: Airflow, run_id: str) -> str:
    return next(str(run["state"]) for run in house.api().runs(NAME) if run["dag_run_id"] == run_id)


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _span(task: dict[str, str], begin: str, end: str) -> float:
    return (_at(task[end]) - _at(task[begin])).total_seconds()


def _until(true: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit("Airflow does not come along")
        time.sleep(0.3)


if __name__ == "__main__":
    sys.exit(main())
