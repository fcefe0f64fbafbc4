"""Tests YARN with the real scheduler of Airflow: the driver on its task's machine or in a container, and each part may die.

In cluster mode Spark's defaults name the file with the servers. Neither the task nor any argument tells it a password.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request

import psutil
import pytest

from cluster.far import BY_A_PERSON, a_house_far_away, committed_nothing, committed_once, no_password_is_left
from cluster.tries import HOSTS, TRIES, servers_of, tried_twice
from cluster.yarn import Yarn
from lockstep.adapters import java
from lockstep.core.errors import Refusal
from lockstep.installed import CHECKOUT
from support.oracles.canary import CommandLines
from support.pythons import SITE, make_python
from support.servers.scheduled import kill, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
EXECUTOR, TASK = "YarnCoarseGrainedExecutorBackend", "pyspark.daemon"
MASTERS = {"cluster": "yarn.ApplicationMaster", "client": "yarn.ExecutorLauncher"}
# Beside its task a driver goes on with another application master. Without its task it ends.
ATTEMPTS = {("master", "client"): 1, ("task", "client"): 2}
CONNECTIONS = {"cluster": "spark_default", "client": "spark_beside"}


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    try:
        made = Yarn(tmp_path_factory.mktemp("yarn"))
    except Refusal as refusal:
        pytest.skip(f"YARN's servers are not to be had here: {refusal}")
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def defaults(tmp_path_factory, yarn, bare_python):
    """Returns settings of Spark for this YARN. Its drivers have Lockstep, and executors have a bare Python."""
    return {
        "spark.yarn.jars": f"local:{java.pyspark_jars()}/*",
        "spark.yarn.stagingDir": str(yarn.folder / "staging"),
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": bare_python,
        "spark.yarn.appMasterEnv.PYSPARK_DRIVER_PYTHON": make_python(
            tmp_path_factory.mktemp("at"), SITE, CHECKOUT / "include"
        ),
        "spark.executor.instances": "1",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "700m",
    }


@pytest.fixture(scope="module")
def house(servers, tmp_path_factory, yarn, defaults, bare_python):
    file = tmp_path_factory.mktemp("etc") / "lockstep.json"
    defaults = defaults | {"spark.yarn.appMasterEnv.LOCKSTEP_ENVIRONMENT": str(file)}
    (file.parent / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in defaults.items()))
    more = {"HADOOP_CONF_DIR": str(yarn.conf), "SPARK_CONF_DIR": str(file.parent), "PYSPARK_PYTHON": bare_python}
    for mode, name in CONNECTIONS.items():
        spark = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": mode}}
        more[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(spark)
    with a_house_far_away(servers, tmp_path_factory.mktemp("yarn-house"), file, more) as made:
        yield made


def reading(house, yarn, mode: str, name: str):
    """Starts a slow run in this mode. Returns it and its id once a task on an executor reads."""
    drill = house.pipeline(name, slow=True, spark=CONNECTIONS[mode])
    run_id = drill.trigger()
    wait_for(drill.reads, "Spark reads", 900)
    wait_for(lambda: yarn.parts(TASK), "a task reads", 300)
    return drill, run_id


def pages(yarn) -> str:
    """Returns what the pages of the ResourceManager, of its nodes and of Spark's driver show."""

    def page(address: str) -> str:
        try:
            with urllib.request.urlopen(address, timeout=20) as opened:  # noqa: S310 - its address is of http
                return opened.read().decode(errors="replace")
        except OSError:
            return ""

    paths = ("conf", "cluster", "ws/v1/cluster/info", "ws/v1/cluster/apps", "ws/v1/cluster/nodes", "logs/")
    shown = "".join(page(f"{yarn.page}/{path}") for path in paths)
    for application in set(re.findall(r"application_\d+_\d+", shown)):
        attempts = page(f"{yarn.page}/ws/v1/cluster/apps/{application}/appattempts")
        shown += attempts + page(f"{yarn.page}/proxy/{application}/environment/")
    for node in set(re.findall(r'"nodeHTTPAddress":"([\w.:]+)"', shown)):
        shown += "".join(page(f"http://{node}/{path}") for path in ("conf", "ws/v1/node/containers", "ws/v1/node/apps"))
    for log in set(re.findall(r'"(?:amContainerLogs|containerLogsLink|logsLink)":"([^"]+)"', shown)):
        shown += "".join(page(f"{log}/{stream}/?start=0") for stream in ("stdout", "stderr"))
    return shown


@pytest.mark.parametrize("mode", ["cluster", "client"])
def test_a_dags_batch_is_staged_on_yarn_and_no_password_is_left_there(house, yarn, mode):
    with CommandLines() as lines:
        drill, run_id = reading(house, yarn, mode, f"yarn_{mode}")
        assert yarn.parts(MASTERS[mode])
        shown = pages(yarn)
        assert f"lockstep {drill.name}" in shown
        drill.mark.unlink()
        committed_once(drill, run_id, tries=1)
    assert [line for line in lines.seen if EXECUTOR.encode() in line]
    assert any(f"--for\0yarn_{mode}/".encode() in line for line in lines.seen)
    assert list(yarn.folder.glob("node-*/logs/application_*/container_*/stderr"))
    assert list(yarn.folder.glob("node-*/local/nmPrivate/**/launch_container.sh"))

    no_password_is_left(house, lines, yarn.folder, shown + pages(yarn))


@pytest.mark.parametrize("mode", ["cluster", "client"])
@pytest.mark.parametrize("victim", ["executor", "master", "node", "task"])
def test_a_part_of_yarn_that_is_killed_costs_and_doubles_nothing(house, yarn, mode, victim):
    drill, run_id = reading(house, yarn, mode, f"without_{victim}_{mode}")
    match victim:
        case "node":
            yarn.kill_node()
            yarn.add_node()
        case "task":
            kill(psutil.Process(submitter(drill.name)).ppid())
        case _:
            for pid in yarn.parts(EXECUTOR if victim == "executor" else MASTERS[mode]):
                kill(pid)
    drill.mark.unlink()
    committed_once(drill, run_id, tries=ATTEMPTS.get((victim, mode)))


def submitter(name: str) -> int:
    """Returns the pid of the spark-submit that works for this pipeline."""
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "org.apache.spark.deploy.SparkSubmit" in line and name in line:
            return process.pid
    raise AssertionError(f"no spark-submit for {name}")


def test_a_run_that_a_person_ends_closes_its_attempt_and_nothing_that_it_staged_commits(house, yarn):
    drill, run_id = reading(house, yarn, "cluster", "ended_by_a_person")
    house.api.mark(drill.name, run_id, "stage", "failed")

    wait_for(lambda: not yarn.parts(MASTERS["cluster"]), "the application ends", 300)
    committed_nothing(drill, BY_A_PERSON)

    drill.mark.unlink()
    committed_once(drill, drill.trigger(), tries=2)


@pytest.fixture(scope="module")
def two_nodes(yarn):
    """Yields YARN with another node, which has room for one executor alone. A driver's container is larger."""
    yarn.add_node(HOSTS[1], megabytes=1024)
    yield yarn
    yarn.kill_node()


@pytest.fixture
def on_two_hosts(two_nodes, defaults, bare_python, monkeypatch):
    """Returns settings of Spark for an executor on each of two nodes."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(two_nodes.conf))
    monkeypatch.setenv("PYSPARK_PYTHON", bare_python)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    return defaults | {"spark.executor.instances": "2", "spark.yarn.am.memory": "700m"}


@pytest.mark.parametrize("mode", ["cluster", "client"])
@pytest.mark.parametrize(("unit", "fault"), TRIES[::2])
def test_a_task_on_yarn_that_is_tried_again_or_twice_at_once_doubles_nothing(
    drill, on_two_hosts, tmp_path, mode, unit, fault
):
    its = {f"spark.yarn.appMasterEnv.{name}": value for name, value in servers_of(drill).items()}
    tried_twice(drill, tmp_path / "events", unit, fault, "yarn", mode, **on_two_hosts | its)
