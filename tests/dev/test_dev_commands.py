"""Tests `lockstep dev` without any server: its answers and its refusals."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from typing import Any

import pytest
from typer.testing import CliRunner

from lockstep.cli.dev import dev_app
from lockstep.core.errors import Refusal
from lockstep.dev.servers import airflow, processes, stack
from lockstep.dev.servers.airflow import Airflow
from lockstep.dev.servers.airflow_settings import AirflowPlace, airflow_environment, secrets_of
from lockstep.dev.servers.stack import ServerState, Stack
from lockstep.installed import CHECKOUT
from support.oracles.documents import held


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("LOCKSTEP_")]:
        monkeypatch.delenv(name)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".lockstep").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".lockstep"


def told(*arguments: str):
    return CliRunner().invoke(dev_app, arguments)


def answered(*arguments: str):
    answer = told(*arguments, "--json")
    assert answer.exit_code == 0, answer.output
    return held(("dev", *arguments), json.loads(answer.stdout))


def refused(*arguments: str) -> str:
    refusal = told(*arguments).exception
    assert isinstance(refusal, Refusal)
    return str(refusal)


def test_the_environment_wins_over_the_stack(home, monkeypatch):
    assert home.is_dir()
    monkeypatch.setenv("LOCKSTEP_DSN", "postgresql://elsewhere/it's")
    monkeypatch.setenv("LOCKSTEP_KAFKA", "elsewhere:9092")

    assert answered("env") == {"dsn": "postgresql://elsewhere/it's", "kafka": "elsewhere:9092"}
    assert told("env").stdout == (
        "export LOCKSTEP_DSN='postgresql://elsewhere/it'\"'\"'s'\nexport LOCKSTEP_KAFKA=elsewhere:9092\n"
    )


def test_the_addresses_of_a_running_stack_are_told(home):
    us = processes.observe(os.getpid())
    stack.write_stack(
        Stack(
            home,
            "postgresql://lockstep:secret@127.0.0.1:1/lockstep",
            "127.0.0.1:2",
            ServerState(1, us),
            ServerState(2, us),
        )
    )

    assert answered("env") == {"dsn": "postgresql://lockstep:secret@127.0.0.1:1/lockstep", "kafka": "127.0.0.1:2"}


def test_addresses_where_nobody_lives_any_more_are_not_told(home):
    dead = processes.Process(os.getpid(), "an earlier boot:1")
    stack.write_stack(Stack(home, "postgresql://x", "127.0.0.1:2", ServerState(1, dead), ServerState(2, dead)))

    assert refused("env") == "the stack is down.  Next: lockstep dev up"


def test_where_there_is_no_stack_the_refusal_says_how_to_get_one(home):
    assert home.is_dir()
    assert "lockstep dev up" in refused("env")
    assert "lockstep dev up" in refused("produce", "orders")


def test_status_tells_what_is_down_and_no_password(home):
    stack.write_stack(Stack(home, "postgresql://lockstep:secret@x", "127.0.0.1:2", ServerState(1, None), None))

    answer = answered("status")

    found = {part["name"]: part["state"] for part in answer["parts"]}
    assert found == {"postgres": "down", "kafka": "down", "airflow": "down", "spark connect": "down"}
    assert "secret" not in json.dumps(answer)


@pytest.fixture
def with_airflow(home, monkeypatch):
    """Makes a stack whose Airflow is this very process, with its password."""
    monkeypatch.setenv("LOCKSTEP_DSN", "postgresql://elsewhere/it")
    monkeypatch.setenv("LOCKSTEP_KAFKA", "elsewhere:9092")
    (home / "airflow").mkdir()
    stack.write_stack(Stack(home, "d", "k", airflow=ServerState(8642, processes.observe(os.getpid()))))
    return secrets_of(home / "airflow").password


LOGIN: dict[str, Any] = {"url": "http://127.0.0.1:8642", "user": "admin"}


def test_status_tells_where_airflows_pages_are_and_its_password_only_when_asked(with_airflow):
    said = told("status").stdout
    assert said.splitlines()[-1] == (
        "Airflow's pages: http://127.0.0.1:8642  user admin  password is shown by lockstep dev status --password"
    )
    plain = answered("status")
    assert with_airflow not in said + json.dumps(plain)
    (part,) = [part for part in plain["parts"] if part["name"] == "airflow"]
    assert LOGIN.items() <= part.items()

    assert told("status", "--password").stdout.endswith(f"  user admin  password {with_airflow}\n")
    (part,) = [part for part in answered("status", "--password")["parts"] if part["name"] == "airflow"]
    assert (LOGIN | {"password": with_airflow}).items() <= part.items()


def test_env_leads_to_airflows_pages_and_to_the_registry(with_airflow, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_REGISTRY", "http://registry:8081")
    assert answered("env") == {
        "dsn": "postgresql://elsewhere/it",
        "kafka": "elsewhere:9092",
        "registry": "http://registry:8081",
        "airflow_url": "http://127.0.0.1:8642",
        "airflow_user": "admin",
        "airflow_password": with_airflow,
    }
    assert told("env").stdout.splitlines()[2:] == [
        "export LOCKSTEP_REGISTRY=http://registry:8081",
        "export LOCKSTEP_AIRFLOW_URL=http://127.0.0.1:8642",
        "export LOCKSTEP_AIRFLOW_USER=admin",
        f"export LOCKSTEP_AIRFLOW_PASSWORD={with_airflow}",
    ]


def test_env_leads_the_command_airflow_to_the_embedded_airflow_by_files_and_tells_no_secret_of_it(with_airflow, home):
    folder = home / "airflow"
    assert "airflow_cli" not in answered("env"), "an Airflow of an earlier version has no such files"
    place = AirflowPlace("postgresql://own:pa%20ss'@127.0.0.1:1/lockstep", "k", home, home, home, home)
    made = airflow_environment(folder, place, 8642, (1, 2))

    exported = answered("env")["airflow_cli"]

    assert exported["AIRFLOW_HOME"] == str(folder)
    assert exported["AIRFLOW__CORE__DAGS_FOLDER"] == str(CHECKOUT / "dags")
    for option in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__FERNET_KEY"):
        read = subprocess.run(shlex.split(exported[f"{option}_CMD"]), capture_output=True, text=True, check=True)
        assert read.stdout == made[option]
        assert (folder / option.lower().split("__")[-1]).stat().st_mode & 0o077 == 0
    said = told("env").stdout
    assert f"export AIRFLOW_HOME={folder}\n" in said
    assert with_airflow in said, "the password of the pages, as ever"
    for secret in ("pa%20ss", made["AIRFLOW__CORE__FERNET_KEY"]):
        assert secret not in said


def test_a_users_own_program_below_airflows_home_is_none_of_its_processes(home):
    folder = home.resolve() / "airflow"
    folder.mkdir()
    theirs = subprocess.Popen(["sleep", "60"], env=os.environ | {"AIRFLOW_HOME": str(folder)})
    own = subprocess.Popen(["sleep", "60"], env=os.environ | {"AIRFLOW_HOME": str(folder), "SPT_NOENV": "1"})
    try:
        airflow.stop(Airflow(folder, {}, 1, ""))
        assert own.wait(10) == -signal.SIGKILL
        assert theirs.poll() is None
    finally:
        for each in (theirs, own):
            each.kill()
            each.wait()


def test_an_airflow_that_does_not_run_has_no_pages(home, monkeypatch):
    stack.write_stack(
        Stack(home, "d", "k", airflow=ServerState(8642, processes.Process(os.getpid(), "an earlier boot:1")))
    )
    monkeypatch.setenv("LOCKSTEP_DSN", "postgresql://elsewhere/it")
    monkeypatch.setenv("LOCKSTEP_KAFKA", "elsewhere:9092")
    assert "Airflow's pages" not in told("status").stdout
    assert answered("env").keys() == {"dsn", "kafka"}
    assert refused("status", "--password") == "the embedded Airflow is not running.  Next: lockstep dev up --airflow"
    assert not (home / "airflow").exists()


def test_down_where_nothing_runs_is_no_error(home):
    assert home.is_dir()
    assert answered("down")["parts"][0]["state"] == "down"


def test_an_unknown_sample_is_refused_before_anything_is_asked(home):
    assert home.is_dir()
    assert "there is baskets, clicks, events" in refused("produce", "nonsense")


@pytest.mark.parametrize(
    "wrong",
    [["produce"], ["produce", "orders", "--records", "-1"], ["produce", "orders", "--rate", "0"], ["up", "--nonsense"]],
)
def test_a_wrong_call_exits_2(home, wrong):
    assert home.is_dir()
    assert told(*wrong).exit_code == 2


def test_a_warm_spark_of_the_environment_is_passed_on(home, monkeypatch):
    assert home.is_dir()
    given = {
        "LOCKSTEP_DSN": "postgresql://elsewhere/it",
        "LOCKSTEP_KAFKA": "elsewhere:9092",
        "SPARK_REMOTE": "sc://warm",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert answered("env")["spark_remote"] == "sc://warm"
    assert "export SPARK_REMOTE=sc://warm\n" in told("env").stdout


def test_a_stack_without_a_warm_spark_leads_to_none(home, monkeypatch):
    kept = {
        "postgres": None,
        "broker": None,
        "dsn": "d",
        "kafka": "k",
        "spark": {"port": 15002, "pid": 1, "started": "long ago"},
    }
    (home / "stack.json").write_text(json.dumps(kept))
    monkeypatch.setenv("LOCKSTEP_DSN", "postgresql://elsewhere/it")
    monkeypatch.setenv("LOCKSTEP_KAFKA", "elsewhere:9092")
    assert "spark_remote" not in answered("env")
