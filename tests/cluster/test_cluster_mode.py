"""Tests the deploy mode `cluster`: the driver of a DAG's task runs on a worker, which may die with it.

The cluster has a file with the servers. Neither the task nor any argument tells it a password.
"""

from __future__ import annotations

import json
import re
import urllib.request

import psutil
import pytest

from cluster.conftest import Cluster
from cluster.far import BY_A_PERSON, STAGER, a_house_far_away, committed_nothing, committed_once, no_password_is_left
from lockstep.dev.servers import processes
from lockstep.installed import CHECKOUT
from support.oracles.canary import CommandLines, Environments
from support.pythons import SITE, make_python
from support.servers.scheduled import kill, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
DRIVER, EXECUTOR, TASK = "worker.DriverWrapper", "CoarseGrainedExecutorBackend", "pyspark.daemon"
ADDRESS = re.compile(r"started at (http://[\w.:]+)")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Returns the place of the file that drivers on this cluster read."""
    return tmp_path_factory.mktemp("etc") / "lockstep.json"


@pytest.fixture(scope="module")
def there(tmp_path_factory, bare_python, file):
    """Yields a cluster whose machines have Lockstep for drivers, and a bare Python for executors."""
    folder = tmp_path_factory.mktemp("cluster")
    more = {"LOCKSTEP_ENVIRONMENT": str(file), "PYSPARK_PYTHON": bare_python, "SPARK_LOCAL_DIRS": str(folder / "local")}
    more["PYSPARK_DRIVER_PYTHON"] = make_python(tmp_path_factory.mktemp("driver"), SITE, CHECKOUT / "include")
    made = Cluster(folder, **more)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def house(servers, tmp_path_factory, there, file):
    spark = {"conn_type": "spark", "host": there.address, "extra": {"deploy-mode": "cluster"}}
    more = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark)}
    with a_house_far_away(servers, tmp_path_factory.mktemp("cluster-mode"), file, more) as made:
        yield made


def parts(there, what: str) -> list[tuple[int, int]]:
    """Returns (worker's number, pid) of each process on the cluster whose command line says this."""
    numbers = range(1, len(there.parts))
    return [(n, pid) for n in numbers for pid in there.family(n) if what in processes.command_line(pid)]


def pages(there) -> str:
    """Returns all that the pages of master and workers show."""
    shown = ""
    for log in there.folder.glob("*.log"):
        for address in ADDRESS.findall(log.read_text(errors="replace")):
            for path in ("/", "/json/", "/environment/"):
                try:
                    with urllib.request.urlopen(address + path, timeout=20) as page:  # noqa: S310 - its address is of http
                        shown += page.read().decode(errors="replace")
                except OSError:
                    continue
    return shown


def test_a_dags_batch_is_staged_on_the_cluster_and_no_password_is_left_there(house, there):
    with CommandLines() as lines, Environments("SPARK_LOCAL_DIRS=" + str(there.folder / "local")) as environments:
        drill = house.pipeline("far", slow=True)
        run_id = drill.trigger()
        wait_for(drill.reads, "Spark reads", 900)
        shown = pages(there)
        assert "lockstep far" in shown
        drill.mark.unlink()
        committed_once(drill, run_id, tries=1)
    assert [each for each in environments.seen if DRIVER in each]
    assert [each for each in environments.seen if EXECUTOR in each]
    wrapped = [line for line in lines.seen if DRIVER.encode() in line]
    assert any(b"--for\0far/" in line for line in wrapped), wrapped
    assert drill.ask("select outcome ->> 'state' from lockstep.answer") == [("done",)]

    no_password_is_left(house, lines, there.folder, shown + pages(there))
    for secret in (house.place.dsn.split(":")[2].split("@")[0], STAGER):
        assert environments.holding(secret) == []
    assert list((there.folder / "work").glob("driver-*/stderr"))


@pytest.mark.parametrize("victim", [EXECUTOR, DRIVER, "worker"])
def test_a_part_of_the_cluster_that_is_killed_costs_and_doubles_nothing(house, there, victim):
    drill = house.pipeline(f"without_{victim[-6:].lower()}", slow=True)
    run_id = drill.trigger()
    wait_for(drill.reads, "Spark reads", 900)
    wait_for(lambda: parts(there, TASK), "a task reads", 300)

    if victim == "worker":
        there.kill_worker(parts(there, DRIVER)[0][0])
        there.add_worker()
    else:
        kill(parts(there, victim)[0][1])
    drill.mark.unlink()

    committed_once(drill, run_id)


def test_a_driver_whose_attempt_was_closed_ends_itself_and_the_next_run_commits(house, there):
    """Nobody asks the cluster to end it: its lease is lost. Its task fails at once, with the reason of the closing."""
    drill = house.pipeline("overtaken", slow=True, pause=2)
    run_id = drill.trigger()
    wait_for(drill.reads, "Spark reads", 900)
    wait_for(lambda: parts(there, TASK), "a task reads", 300)
    old = [psutil.Process(pid) for _, pid in parts(there, DRIVER)]

    drill.ask(
        "update lockstep.attempt set state = 'failed', fault = 'surroundings', error = 'by the test', "
        "closed_at = clock_timestamp() where state = 'open' returning 1"
    )
    drill.mark.unlink()

    assert psutil.wait_procs(old, 300)[1] == []
    assert drill.over(run_id, seconds=300) == "failed"
    committed_nothing(drill, "by the test")
    committed_once(drill, drill.trigger(), tries=2)


def test_a_task_that_a_person_ends_closes_its_attempt_and_nothing_that_it_staged_commits(house, there):
    drill = house.pipeline("ended_by_a_person", slow=True)
    run_id = drill.trigger()
    wait_for(drill.reads, "Spark reads", 900)
    wait_for(lambda: parts(there, TASK), "a task reads", 300)
    house.api.mark(drill.name, run_id, "stage", "failed")

    wait_for(lambda: not parts(there, DRIVER), "the driver ends", 300)
    committed_nothing(drill, BY_A_PERSON)

    drill.mark.unlink()
    committed_once(drill, drill.trigger(), tries=2)
