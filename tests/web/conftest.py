"""Serves the app as Airflow's own, with its files kept to the test's process."""

from __future__ import annotations

import os
import tempfile
from types import SimpleNamespace

import pytest

from here import Here
from web.answers import guards

os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-"))
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")


@pytest.fixture
def here(drill):
    here = Here(drill)
    yield here
    here.at.close()


@pytest.fixture
def pages(drill, monkeypatch):
    """Returns `pages("/dags/drill/coverage")`, which answers as the server would for a reader of these DAGs."""
    from fastapi.testclient import TestClient  # noqa: PLC0415 - Airflow reads its home when it is imported

    from lockstep.web import place  # noqa: PLC0415 - the same
    from lockstep.web.app import app  # noqa: PLC0415 - the same

    monkeypatch.setenv("LOCKSTEP_DSN", drill.dsn)
    monkeypatch.setenv("LOCKSTEP_KAFKA", drill.kafka)
    monkeypatch.setattr(place, "KNOWN", place.Remembered(seconds=0.1))
    served = app()
    for guard in guards(served):
        readable = SimpleNamespace(value={"drill", "drill_history", "never_run"})
        answer = readable if guard.__name__ == "depends_permitted_dags_filter" else None
        served.dependency_overrides[guard] = lambda answer=answer: answer
    return TestClient(served, raise_server_exceptions=False).get
