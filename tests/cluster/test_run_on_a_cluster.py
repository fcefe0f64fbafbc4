"""Tests `lockstep run` with SPARK_MASTER.

Code and faults travel to executors that have nothing of ours, and one may die.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from lockstep.dev.servers import processes
from support.scenes.drill import said, wait_stopped
from support.servers.scheduled import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
# Fails unless the executors have imported us out of what was sent. The rules are imported there, not on the driver.
WITNESS = """
from pyspark.sql import functions as F

def transform(records):
    @F.udf("string")
    def with_place(id):
        import lockstep
        from pipelines.drill.rules import WORD
        if WORD != "ours" or ".zip/lockstep/" not in lockstep.__file__:
            raise RuntimeError(f"{WORD} of {lockstep.__file__}")
        return id
    return records.withColumn("id", with_place("id"))
"""
# Makes files of a shuffle, which their executor must outlive.
SHUFFLED = """
def transform(records):
    return records.repartition(3, "id")
"""


@pytest.fixture
def on_cluster(drill, cluster, bare_python, monkeypatch):
    monkeypatch.setenv("SPARK_MASTER", cluster.address)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", bare_python)
    monkeypatch.setenv("LOCKSTEP_SPARK_MEMORY", "1g")
    return drill


def test_code_travels_to_executors_that_have_none(on_cluster):
    folder = on_cluster.home / "drill"
    (folder / "transform.py").write_text(WITNESS)
    (folder / "rules.py").write_text('WORD = "ours"\n')

    assert on_cluster.run("--spark")["committed"] == [1]

    assert on_cluster.ask("select count(*) from public.drill") == [(150,)]
    assert on_cluster.violations() == []


def test_a_worker_killed_while_it_reads_loses_and_doubles_nothing(on_cluster, cluster):
    process = on_cluster.start("--spark", fault="task.read_mid=stop")
    cluster.kill_worker(reading(cluster, process))
    cluster.add_worker()

    assert said(process, 200)["committed"] == [1]
    assert not list(on_cluster.home.glob("armed-*")), "the fault never reached an executor"
    assert on_cluster.ask("select count(*) from public.drill") == [(150,)]
    assert on_cluster.violations() == []


def test_a_driver_killed_while_its_executors_read_is_followed_by_another(on_cluster, cluster):
    process = on_cluster.start("--spark", fault="task.read_mid=stop")
    reading(cluster, process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)

    assert on_cluster.run("--until-idle", "--take-over", "--spark")["committed"] == [1]
    assert on_cluster.violations() == []


def test_executors_that_go_away_between_two_batches_come_back_for_the_second(
    on_cluster, cluster, monkeypatch, tmp_path
):
    """The driver stands still before the first commit, so Spark takes its idle executors away."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.dynamicAllocation.enabled true\n"
        "spark.dynamicAllocation.shuffleTracking.enabled true\n"
        "spark.dynamicAllocation.shuffleTracking.timeout 1s\n"
        "spark.dynamicAllocation.executorIdleTimeout 1s\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    folder = on_cluster.home / "drill"
    definition = folder / "__init__.py"
    definition.write_text(definition.read_text().replace("records=200", "records=100"))
    (folder / "transform.py").write_text(SHUFFLED)
    first = started(cluster)

    process = on_cluster.start("--until-idle", "--spark", fault="stage.done=stop")
    wait_stopped(process, 600)
    before = started(cluster)
    wait_for(lambda: not executors(cluster), "the idle executors are gone", 120)
    process.send_signal(signal.SIGCONT)

    assert said(process, 600)["committed"] == [1, 2]
    assert len(first) < len(before) < len(started(cluster)), "executors of the second batch are others"
    assert on_cluster.ask("select count(*), count(distinct id) from public.drill") == [(150, 150)]
    assert on_cluster.violations() == []


def executors(cluster) -> list[int]:
    """Returns the processes of executors that run now."""
    running = [pid for number in (1, 2) for pid in cluster.family(number)]
    return [pid for pid in running if "CoarseGrainedExecutorBackend" in processes.command_line(pid)]


def started(cluster) -> set[Path]:
    """Returns the folders of all executors that were ever started."""
    return {path for path in (cluster.folder / "work").glob("app-*/*") if path.is_dir()}


def reading(cluster, process) -> int:
    """Returns the number of the worker one of whose tasks stands still at its fault point."""
    until = time.monotonic() + 90
    while True:
        for number in (1, 2):
            family = [psutil.Process(pid) for pid in cluster.family(number) if psutil.pid_exists(pid)]
            if any(member.status() == psutil.STATUS_STOPPED for member in family):
                return number
        assert time.monotonic() < until, "no task was ever stopped"
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
