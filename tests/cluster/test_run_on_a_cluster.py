"""Tests `lockstep run` with SPARK_MASTER.

Code and faults travel to executors that have nothing of ours, and one may die.
"""

from __future__ import annotations

import signal
import time

import psutil
import pytest

from support.scenes.drill import said

pytestmark = pytest.mark.long
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
