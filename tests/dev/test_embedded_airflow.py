"""Tests the embedded Airflow: healthy, quiet about its secrets, wounded, healed, gone without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from lockstep.dev.servers import airflow, ports, processes, stack, switch
from lockstep.dev.servers.airflow_settings import AirflowPlace, secrets_of
from lockstep.dev.setup import jars

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server
DAG = """
from airflow.sdk import DAG
from airflow.providers.standard.operators.bash import BashOperator
with DAG("sleeper", schedule=None):
    BashOperator(task_id="sleep", bash_command="exec sleep 300")
"""


@pytest.fixture(scope="module")
def place(servers, tmp_path_factory):
    dags = tmp_path_factory.mktemp("dags")
    (dags / "sleeper.py").write_text(DAG)
    empty = tmp_path_factory.mktemp("empty")
    metadata = f"airflow_{os.getpid()}"
    return AirflowPlace(
        servers.postgres().dsn, servers.kafka().bootstrap, dags, empty, empty, jars.folder(), metadata=metadata
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("airflow-home")
    yield folder
    if left := airflow.running(folder):
        airflow.stop(left)


def belonging_to(home: Path) -> list[int]:
    return list(processes.having(f"AIRFLOW_HOME={home.resolve() / 'airflow'}"))


def wait_for(what, seconds: float = 30.0):
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.2)
    return found


@pytest.mark.long
def test_it_lives_hides_its_secrets_heals_and_leaves_nothing_behind(home, place):
    running = airflow.start(home, place)
    api = running.api()
    assert {api.health()[name] for name in ("metadatabase", "scheduler", "dag_processor")} == {"healthy"}
    assert airflow.start(home, place) == running, "a second start found the first"
    wait_for(lambda: "sleeper" in api.dags())
    assert api.import_errors() == []

    # Its secrets are in files of its owner's and in environments, on no command line.
    known = secrets_of(running.folder)
    secrets = [known.password, known.fernet, known.jwt, place.dsn.split(":")[2].split("@")[0]]
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [secret for secret in secrets if secret in lines]
    assert all(
        file.stat().st_mode & 0o077 == 0
        for file in (running.folder / "secrets.json", running.folder / "passwords.json")
    )

    # A task is at work when the scheduler is killed: its workers and the task outlive it.
    api.unpause("sleeper")
    run_id = api.trigger("sleeper")
    wait_for(lambda: api.tasks("sleeper", run_id).get("sleep", {}).get("state") == "running")
    wait_for(lambda: any("sleep 300" in processes.command_line(pid) for pid in belonging_to(home)))
    airflow.kill(running, "scheduler")
    wait_for(lambda: "scheduler" not in airflow.running(home).parts)

    healed = airflow.start(home, place)
    assert healed.parts["scheduler"] != running.parts["scheduler"]
    assert healed.parts["api-server"] == running.parts["api-server"], "what lived was left alone"

    airflow.stop(healed)
    assert belonging_to(home) == []
    assert ports.is_free(healed.port)
    assert airflow.running(home) is None


@pytest.mark.long
def test_the_switch_starts_it_when_asked_leaves_it_alone_else_and_stops_it_alone(servers, tmp_path):
    given = {"LOCKSTEP_DSN": servers.postgres().dsn, "LOCKSTEP_KAFKA": servers.kafka().bootstrap}
    environ = dict(os.environ) | given | {"LOCKSTEP_JARS": str(jars.folder())}
    assert switch.start_servers(tmp_path, silent, environ).airflow is None

    asked = switch.start_servers(tmp_path, silent, environ, with_airflow=True)
    assert asked.airflow.lives
    assert stack.read(tmp_path).airflow == asked.airflow
    api = airflow.running(tmp_path).api()
    wait_for(lambda: {"orders", "clicks"} <= api.dags().keys())
    assert api.import_errors() == []
    assert switch.start_servers(tmp_path, silent, environ).airflow == asked.airflow, "a start without it stops nothing"

    stopped = switch.stop_servers(tmp_path, silent, only_airflow=True)
    assert (stopped.airflow.port, stopped.airflow.process) == (asked.airflow.port, None)
    assert belonging_to(tmp_path) == []
    assert ports.answers(servers.postgres().port), "what is not ours, and what was not asked for, lives on"


def silent(_line: str) -> None:
    return


def test_a_pid_that_passed_to_a_stranger_is_not_taken_for_airflow(tmp_path):
    folder = tmp_path / "airflow"
    folder.mkdir()
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (folder / "scheduler.pid").write_text(str(stranger.pid))
    assert airflow.running(tmp_path) is None
    stranger.send_signal(signal.SIGKILL)
    stranger.wait()
