"""Starts the Airflow of this folder's tests. Each test has pipelines of its own in it."""

from __future__ import annotations

import pytest

from lockstep.engine.spark.jvm import EVENTS
from lockstep.faults import ARMED_BY
from support.servers.scheduled import an_airflow

MALLORY = "mallory"
POINTS = ("commit.ledger_written", "announce.before")
SETTINGS = {
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "1",
    "AIRFLOW__CORE__PARALLELISM": "6",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"admin:admin,reviewer:user,{MALLORY}:user",
}


@pytest.fixture(scope="package")
def house(servers, tmp_path_factory):
    home = tmp_path_factory.mktemp("shared")
    faults = " ".join(f"{point}=kill@{home / point}" for point in POINTS)  # armed by a file of this name
    more = SETTINGS | {ARMED_BY: faults, EVENTS: str(home / "events")}
    with an_airflow(servers, home, more=more, spark_master="local[1]") as made:
        yield made
