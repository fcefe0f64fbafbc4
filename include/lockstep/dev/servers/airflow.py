"""Runs the embedded Airflow below a folder, with this very Python: api-server, scheduler and dag-processor."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.connection.create import ensure_database
from lockstep.adapters.withheld import without
from lockstep.core.errors import Refusal
from lockstep.dev.private import private_folder
from lockstep.dev.servers import ports, processes
from lockstep.dev.servers.airflow_settings import (
    AIRFLOW_SETTINGS,
    MARK,
    REVIEWER,
    USER,
    airflow_environment,
    secrets_of,
)
from lockstep.installed import is_installed

if TYPE_CHECKING:
    from lockstep.dev.servers.airflow_api import AirflowApi
    from lockstep.dev.servers.airflow_settings import AirflowPlace
    from lockstep.dev.servers.processes import Process

AIRFLOW_PARTS = ("api-server", "scheduler", "dag-processor")
API_SECONDS = 30.0
LOGS = 2  # ports for the log servers of workers and triggerer
# Workers of a killed scheduler hold its connection, and with it the lock on a run, which would never run again.
ABANDONED = "30s"
# In the names of the health page. The api-server is the part that answers.
HEALTH = {"api-server": "metadatabase", "scheduler": "scheduler", "dag-processor": "dag_processor"}
# The DAG processor runs the authors' files. It signs no token and needs no server, but decrypts Airflow's variables.
# The migration of Airflow's database needs its address alone. docker-compose.yaml has the same.
NOT_FOR = {
    "dag-processor": re.compile("AIRFLOW__API_AUTH__JWT_SECRET|AIRFLOW__API__SECRET_KEY|AIRFLOW_CONN_.*"),
    "db": re.compile(
        "AIRFLOW__API_AUTH__JWT_SECRET|AIRFLOW__API__SECRET_KEY|AIRFLOW__CORE__FERNET_KEY|AIRFLOW_(CONN|VAR)_.*"
    ),
}


@dataclass(frozen=True, slots=True)
class Airflow:
    """A running Airflow, whole or in part, with its address."""

    folder: Path
    parts: dict[str, Process]
    port: int
    password: str = field(repr=False)

    @property
    def address(self) -> str:
        """Returns the address of its UI and its API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def user(self) -> str:
        """Returns the user who may log in."""
        return USER

    def api(self, seconds: float = API_SECONDS) -> AirflowApi:
        """Returns its API for the first user. A call that takes longer than these seconds fails."""
        from lockstep.dev.servers.airflow_api import AirflowApi  # noqa: PLC0415 - its client comes with Airflow

        return AirflowApi(self.address, self.user, self.password, seconds)

    def reviewer(self) -> AirflowApi:
        """Returns its API for the second user, who approves the requests of the first."""
        from lockstep.dev.servers.airflow_api import AirflowApi  # noqa: PLC0415 - its client comes with Airflow

        return AirflowApi(self.address, REVIEWER, secrets_of(self.folder).reviewer)


def require_airflow() -> None:
    """Raises `ModuleNotFoundError` where Airflow is not installed, and starts nothing."""
    if not is_installed("airflow"):
        raise ModuleNotFoundError("No module named 'airflow'", name="airflow")


def start(home: Path, place: AirflowPlace, port: int | None = None) -> Airflow:
    """Returns the healthy Airflow below this folder. Starts the parts that do not run yet."""
    folder = _folder(home)
    private_folder(folder)
    known = running(home)
    chosen = known.port if known else port or ports.choose(home)
    if known is None:
        (folder / "port").write_text(str(chosen))
        _clear_the_wreck(folder)
    taken, logs = [chosen], []
    for _ in range(LOGS):
        logs.append(ports.choose(home, taken=taken))
        taken.append(logs[-1])
    environ = processes.clean_environment() | airflow_environment(folder, place, chosen, (logs[0], logs[1]))
    _prepare(folder, place, environ)
    for part in AIRFLOW_PARTS:
        if known is None or part not in known.parts:
            pid_file = folder / f"{part}.pid"
            given = without(environ, NOT_FOR[part]) if part in NOT_FOR else environ
            processes.launch([_door(), part], log=folder / f"{part}.log", pid_file=pid_file, environ=given)
    return _ready(home)


def running(home: Path) -> Airflow | None:
    """Returns the Airflow below this folder if any of its processes lives. Any command may have started it."""
    folder, parts = _folder(home), {}
    for part in AIRFLOW_PARTS:
        with suppress(FileNotFoundError, ValueError):
            process = processes.observe(int((folder / f"{part}.pid").read_text()))
            # A crashed part's pid may be another process's by now, but no other has our folder in its environment.
            if process and process.pid in set(_ours(folder)):
                parts[part] = process
    if not parts:
        return None
    return Airflow(folder, parts, int((folder / "port").read_text()), secrets_of(folder).password)


def stop(airflow: Airflow, patience: float = 15.0) -> None:
    """Ends all its processes, running tasks and their Spark drivers, too."""
    for process in airflow.parts.values():
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while any(processes.alive(process) for process in airflow.parts.values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    _clear_the_wreck(airflow.folder)


def kill(airflow: Airflow, part: str) -> None:
    """Ends one part as a crash would, and waits until it is gone. Its child processes live on."""
    os.kill(airflow.parts[part].pid, signal.SIGKILL)
    while processes.alive(airflow.parts[part]):
        time.sleep(0.02)


def _clear_the_wreck(folder: Path) -> None:
    """Kills every process with our folder in its environment.

    A killed scheduler leaves workers, tasks and a log server behind.
    """
    deadline = time.monotonic() + 10.0
    while left := _ours(folder):
        if time.monotonic() > deadline:
            raise Refusal(f"processes {left} of {folder} do not end by SIGKILL.", next_command=f"ps -fp {left[0]}")
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def _ours(folder: Path) -> list[int]:
    """Returns its processes. A user's own `airflow` has its AIRFLOW_HOME, too, and not the mark."""
    return list(processes.having(f"AIRFLOW_HOME={folder}", f"{MARK}={AIRFLOW_SETTINGS[MARK]}"))


def _prepare(folder: Path, place: AirflowPlace, environ: dict[str, str]) -> None:
    """Creates Airflow's own database and migrates it to the version of its code. Does nothing if it is current."""
    mark, now = folder / "migrated", f"{version('apache-airflow')} {place.metadata_dsn.rpartition('@')[2]}"
    if mark.exists() and mark.read_text() == now:
        return
    ensure_database(place.dsn, place.metadata, idle_in_transaction_session_timeout=ABANDONED)
    log = folder / "migrate.log"
    if not processes.run_program([_door(), "db", "migrate"], log=log, environ=without(environ, NOT_FOR["db"])):
        raise Refusal(
            f"Airflow's database was not migrated: {processes.last_log_line(log)}", next_command=f"less {log}"
        )
    mark.write_text(now)


def _ready(home: Path, patience: float = 90.0) -> Airflow:
    deadline, missing = time.monotonic() + patience, list(AIRFLOW_PARTS)
    while time.monotonic() < deadline:
        airflow = running(home)
        dead = [part for part in AIRFLOW_PARTS if airflow is None or part not in airflow.parts]
        if dead and time.monotonic() > deadline - patience + 2.0:
            log = _folder(home) / f"{dead[0]}.log"
            raise Refusal(f"Airflow's {dead[0]} ended: {processes.last_log_line(log)}", next_command=f"less {log}")
        health = airflow.api().health() if airflow else {}
        missing = [part for part, name in HEALTH.items() if health.get(name) != "healthy"]
        if airflow and not missing and not dead:
            return airflow
        time.sleep(0.2)
    log = _folder(home) / f"{missing[0]}.log"
    raise Refusal(f"Airflow's {missing[0]} was not healthy within {patience:.0f} s.", next_command=f"less {log}")


def _door() -> str:
    return str(Path(sys.executable).with_name("airflow"))


def _folder(home: Path) -> Path:
    # Resolved, because its processes are recognised by the path in their environment.
    return home.resolve() / "airflow"
