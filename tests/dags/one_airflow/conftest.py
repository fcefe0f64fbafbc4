"""Starts the Airflow of this folder's tests. Each test has pipelines of its own in it."""

from __future__ import annotations

import pytest

from support.servers.scheduled import an_airflow

MALLORY = "mallory"
SETTINGS = {
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "1",
    "AIRFLOW__CORE__PARALLELISM": "6",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"admin:admin,reviewer:user,{MALLORY}:user",
}


@pytest.fixture(scope="package")
def house(servers, tmp_path_factory):
    with an_airflow(servers, tmp_path_factory.mktemp("shared"), more=SETTINGS, spark_master="local[1]") as made:
        yield made
