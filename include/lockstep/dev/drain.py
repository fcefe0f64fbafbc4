"""Lets the scheduler drain the topics, and shows the state of the DAGs' newest runs in one line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lockstep.dev.servers.airflow_api import AirflowApi

DRAIN_SECONDS = 480.0
SECONDS_BETWEEN_POLLS = 1.0
LAST_LINES = 12
TIMED_STEPS = ("plan", "stage", "validate", "commit", "announce")


def drain(api: AirflowApi, names: Sequence[str], seconds: float = DRAIN_SECONDS) -> dict[str, list[str]]:
    """Lets the scheduler run these pipelines' DAGs until nothing is left to commit. Returns the runs that committed.

    Raises `Refusal` with the failing task's last lines, or with the remaining lag when time is up.
    """
    _wait_until_parsed(api, names)
    before = {name: {run["dag_run_id"] for run in api.runs(name)} for name in names}
    for name in names:
        api.unpause(name)
    console, began = Console(stderr=True), time.monotonic()
    with console.status("waiting for the scheduler") as line:
        while any((lag := {name: _lag(name) for name in names}).values()) or _at_work(api, names):
            _raise_what_failed(api, names, before)
            if time.monotonic() - began > seconds:
                raise Refusal(f"after {seconds:.0f} s records are left: {lag}", next_command="lockstep dev status")
            line.update(
                f"{time.monotonic() - began:.0f} s  {'   '.join(_told(api, name, lag[name]) for name in names)}"
            )
            time.sleep(SECONDS_BETWEEN_POLLS)
    return {name: list(_committed(api, name, before[name])) for name in names}


def _wait_until_parsed(api: AirflowApi, names: Sequence[str], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while missing := [name for name in names if name not in api.dags()]:
        if errors := api.import_errors():
            raise Refusal(f"a DAG file does not parse: {errors[0].strip().splitlines()[-1]}")
        if time.monotonic() > until:
            raise Refusal(f"Airflow does not see the DAGs {', '.join(missing)}", next_command="ls dags")
        time.sleep(SECONDS_BETWEEN_POLLS)


def _lag(name: str) -> int:
    """Returns the number of uncommitted offsets, by the user's own command."""
    door = str(Path(sys.executable).with_name("lockstep"))
    answer = subprocess.run([door, "status", name, "--json"], check=False, capture_output=True, text=True)
    if answer.returncode != 0:
        raise Refusal(answer.stderr.strip())
    streams = json.loads(answer.stdout)["streams"]
    # Before the first plan there are no streams: nothing is known to be committed.
    return sum(stream["lag_records"] for stream in streams) if streams else 1


def _at_work(api: AirflowApi, names: Sequence[str]) -> bool:
    """Returns True if a run is queued or running. A commit may still wait for its announcement."""
    return any(run["state"] in {"queued", "running"} for name in names for run in api.runs(name))


def _told(api: AirflowApi, name: str, lag: int) -> str:
    runs = api.runs(name)
    tasks = api.tasks(name, runs[-1]["dag_run_id"]) if runs else {}
    now = next(
        (f"{step} {tasks[step]['state'] or 'waits'}" for step in TIMED_STEPS if _goes_on(tasks.get(step))), "idle"
    )
    return f"{name}: {now}, {lag} to go"


def _goes_on(task: dict[str, Any] | None) -> bool:
    return task is not None and task["state"] not in {"success", "skipped"}


def _raise_what_failed(api: AirflowApi, names: Sequence[str], before: dict[str, set[str]]) -> None:
    for name in names:
        for failure in read_failures(api, name, before[name]):
            raise Refusal(failure, next_command=f"lockstep status {name}")


def read_failures(api: AirflowApi, name: str, before: Collection[str] = ()) -> Iterator[str]:
    """Yields each failed task of the DAG's failed runs, with the end of its log. Leaves out the runs in `before`."""
    for run in api.runs(name):
        run_id = run["dag_run_id"]
        if run["state"] == "failed" and run_id not in before:
            for task in api.tasks(name, run_id).values():
                if task["state"] == "failed":
                    lines = api.log(name, run_id, task["task_id"], task["try_number"]).splitlines()
                    yield "\n  ".join([f"{name}: {task['task_id']} of {run_id} failed:", *lines[-LAST_LINES:]])


def _committed(api: AirflowApi, name: str, before: set[str]) -> Iterator[str]:
    for run in api.runs(name):
        tasks = api.tasks(name, run["dag_run_id"])
        if run["dag_run_id"] not in before and tasks.get("commit", {}).get("state") == "success":
            yield run["dag_run_id"]
