"""The app is Airflow's own: its files are kept to the test's process."""

from __future__ import annotations

import os
import tempfile

import pytest

from here import Here

os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-"))
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")


@pytest.fixture
def here(drill):
    here = Here(drill)
    yield here
    here.at.close()
