"""Tests docker-compose.yaml by starting its services as processes in namespaces, in its order and by its conditions.

No engine is needed and no image is pulled: tests/support/containers describes what replaces them. Environments, commands,
mounts, names, ports and health checks are those of the file.
"""

from __future__ import annotations

import re

import httpx
import psycopg2
import pytest
from confluent_kafka.admin import AdminClient

from lockstep.dev.drain import read_failures
from lockstep.dev.servers.airflow_api import AirflowApi
from lockstep.installed import CHECKOUT
from support.containers.machine import why_not
from support.containers.stack import Stack
from support.servers.scheduled import OVER, wait_for

pytestmark = [pytest.mark.server, pytest.mark.timeout(3600)]
PAGE = (CHECKOUT / "docs" / "containers.md").read_text()
# The lines of the page that call the command line, without the part that calls Compose.
LINES = re.findall(r"^    docker compose run --rm lockstep ([^#\n]+?) *(?:#.*)?$", PAGE, flags=re.MULTILINE)
DAGS = ("orders", "clicks")


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """Returns the stack as `docker compose up --build --wait` leaves it."""
    if reason := why_not():
        pytest.skip(reason)
    made = Stack(tmp_path_factory.mktemp("compose"))
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.fixture
def api(stack):
    return AirflowApi(f"http://127.0.0.1:{stack.env['AIRFLOW_PORT']}", "admin", stack.env["AIRFLOW_ADMIN_PASSWORD"])


def test_the_start_that_the_page_names_ends_with_every_service_healthy(stack, api):
    assert stack.exits == {"airflow-init": 0}
    parts = {"metadatabase", "scheduler", "dag_processor", "triggerer"}
    wait_for(lambda: api.health() == dict.fromkeys(parts, "healthy"), "Airflow's own page says the same", 60)
    assert api.call("GET", "connections")["connections"] == []  # those of the environment are enough


def test_this_machine_reaches_the_ports_that_the_example_names(stack):
    env = stack.env
    cluster = AdminClient({"bootstrap.servers": f"127.0.0.1:{env['LOCKSTEP_KAFKA_PORT']}"}).list_topics(timeout=20)
    login = f"postgresql://lockstep:{env['LOCKSTEP_PG_PASSWORD']}@127.0.0.1:{env['LOCKSTEP_PG_PORT']}/lockstep"
    conn = psycopg2.connect(login)
    with conn, conn.cursor() as cur:
        cur.execute("select count(*) from lockstep.pipeline")
        (pipelines,) = cur.fetchone()
    conn.close()
    master = httpx.get(f"http://127.0.0.1:{env['SPARK_MASTER_UI_PORT']}/json/", timeout=20).json()

    assert [(node.host, str(node.port)) for node in cluster.brokers.values()] == [
        ("127.0.0.1", env["LOCKSTEP_KAFKA_PORT"])
    ]
    assert pipelines == len(list(CHECKOUT.glob("include/pipelines/*/target.sql")))
    assert master["aliveworkers"] == stack.services["spark-worker"].replicas


@pytest.mark.long
def test_the_lines_of_the_page_produce_commit_and_verify(stack, api):
    produce, asked = [line for line in LINES if "produce" in line], [line for line in LINES if "produce" not in line]
    assert [line.split()[2] for line in produce] == list(DAGS)
    assert [line.split()[0] for line in asked] == ["status", "verify"]
    for line in produce:
        stack.run("lockstep", *line.split())
    wait_for(lambda: set(DAGS) <= api.dags().keys(), "the DAGs are parsed", 600)
    assert api.import_errors() == []
    for dag in DAGS:
        api.unpause(dag)

    for dag in DAGS:
        wait_for(
            lambda dag=dag: [run for run in api.runs(dag) if run["state"] in OVER], f"a run of {dag} is over", 1200
        )
        states = {run["state"] for run in api.runs(dag) if run["state"] in OVER}
        assert states == {"success"}, "\n".join(read_failures(api, dag))
    status, verified = (stack.run("lockstep", *line.split()) for line in asked)
    assert sum(int(number) for number in re.findall(r"^ +orders\.v1-\d +(\d+)", status, flags=re.MULTILINE)) == 50_000
    assert "keys of 50000 records" in verified, verified
    assert "orders: every check holds." in verified, verified
    assert "50000 records decoded again" in stack.run("lockstep", "verify", "clicks", "--deep")
