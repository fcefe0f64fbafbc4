"""Tests `lockstep` in an environment without Airflow: nothing needs its client, and what needs Airflow starts no server."""

from __future__ import annotations

import os
import sys

import pytest

from lockstep.context import systems
from lockstep.dev.servers import airflow, stack, switch
from lockstep.dev.servers.airflow import Airflow
from lockstep.dev.servers.stack import Stack


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("LOCKSTEP_")]:
        monkeypatch.delenv(name)
    (tmp_path / ".lockstep").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".lockstep"


def test_an_airflow_of_another_environment_is_not_asked_where_this_one_has_no_client(home, monkeypatch):
    stack.write_stack(Stack(home, "postgresql://x", "127.0.0.1:2"))
    monkeypatch.setenv("LOCKSTEP_DSN", "postgresql://x")
    monkeypatch.setattr(airflow, "running", lambda _: Airflow(home, {}, 1, ""))
    monkeypatch.setitem(sys.modules, "lockstep.dev.servers.airflow_api", None)  # as if httpx were missing

    assert systems.paused_dags() == {}


def test_airflow_that_is_not_installed_is_named_before_any_server_starts(home, monkeypatch):
    monkeypatch.setattr(airflow, "is_installed", lambda _: False)

    with pytest.raises(ModuleNotFoundError) as refused:
        switch.start_servers(home, lambda _: None, {}, with_airflow=True)

    assert refused.value.name == "airflow"
    assert not (home / "stack.json").exists()
