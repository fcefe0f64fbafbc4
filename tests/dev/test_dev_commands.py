"""`lockstep dev` without any server: what it answers, and what it refuses."""

from __future__ import annotations

import json
import os

import pytest
from typer.testing import CliRunner

from lockstep.cli.dev import dev_app
from lockstep.core.errors import Refusal
from lockstep.dev import processes, stack
from lockstep.dev.stack import Part, Stack


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
    return json.loads(answer.stdout)


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
    stack.write(
        Stack(home, "postgresql://lockstep:secret@127.0.0.1:1/lockstep", "127.0.0.1:2", Part(1, us), Part(2, us))
    )

    assert answered("env") == {"dsn": "postgresql://lockstep:secret@127.0.0.1:1/lockstep", "kafka": "127.0.0.1:2"}


def test_addresses_where_nobody_lives_any_more_are_not_told(home):
    dead = processes.Process(os.getpid(), "an earlier boot:1")
    stack.write(Stack(home, "postgresql://x", "127.0.0.1:2", Part(1, dead), Part(2, dead)))

    assert refused("env") == "the stack is down.  Next: lockstep dev up"


def test_where_there_is_no_stack_the_refusal_says_how_to_get_one(home):
    assert home.is_dir()
    assert "lockstep dev up" in refused("env")
    assert "lockstep dev up" in refused("produce", "orders")


def test_status_tells_what_is_down_and_no_password(home):
    stack.write(Stack(home, "postgresql://lockstep:secret@x", "127.0.0.1:2", Part(1, None), None))

    answer = answered("status")

    found = {part["name"]: part["state"] for part in answer["parts"]}
    assert found == {"postgres": "down", "kafka": "down", "airflow": "down", "spark connect": "down"}
    assert "secret" not in json.dumps(answer)


def test_down_where_nothing_runs_is_no_error(home):
    assert home.is_dir()
    assert answered("down")["parts"][0]["state"] == "down"


def test_an_unknown_sample_is_refused_before_anything_is_asked(home):
    assert home.is_dir()
    assert "there is clicks, orders" in refused("produce", "nonsense")


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
