"""Spark on other machines: the DAG is the same, executors bring nothing but pyarrow and adbc, and one may die."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from lockstep.dev import ports, processes
from scheduled import an_airflow, kill, wait_for

pytestmark = pytest.mark.long
# Tells from the executors which engine they have imported, and from where.
WITNESS = """
from pyspark.sql import functions as F

def transform(records):
    @F.udf("string")
    def with_place(id):
        import lockstep
        return f"{id} {lockstep.__file__}"
    return records.withColumn("id", with_place("id"))
"""


class Cluster:
    """A master and two workers of one core each, started from the pip package."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.parts = folder, []
        port = ports.choose(folder)
        self.address = f"spark://127.0.0.1:{port}"
        self._start(
            "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"
        )
        wait_for(lambda: ports.answers(port), "the master answers")
        for _ in range(2):
            self.add_worker()
        wait_for(lambda: (folder / "0.log").read_text().count("Registering worker") == 2, "both workers are registered")

    def add_worker(self) -> None:
        options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1200m", "--webui-port", "0")
        self._start(
            "org.apache.spark.deploy.worker.Worker", *options, "--work-dir", str(self.folder / "work"), self.address
        )

    def kill_worker(self) -> None:
        """The last worker with its executors and their Python workers, at once."""
        worker = self.parts.pop()
        family = [worker.pid, *_below(worker.pid)]
        for pid in family:
            kill(pid)
        worker.wait()

    def stop(self) -> None:
        for part in self.parts:
            for pid in [*_below(part.pid), part.pid]:
                if processes.observe(pid):
                    kill(pid)
            part.wait()

    def _start(self, *command: str) -> None:
        program = str(Path(sys.executable).with_name("spark-class"))
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LOCKSTEP"))}
        environ |= {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        with (self.folder / f"{len(self.parts)}.log").open("ab") as log:
            self.parts.append(subprocess.Popen([program, *command], stdout=log, stderr=log, env=environ))


def _below(pid: int) -> list[int]:
    children = [
        int(entry.parent.name)
        for entry in Path("/proc").glob("[0-9]*/stat")
        if entry.exists() and int(entry.read_text().rpartition(")")[2].split()[1]) == pid
    ]
    return [each for child in children for each in (child, *_below(child))]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """A Python with the packages of the tests but without Lockstep: what a worker's machine has."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    python = str(folder / "bin" / "python")
    found = subprocess.run(
        [python, "-c", "import pyspark, adbc_driver_postgresql, lockstep"], capture_output=True, text=True, check=False
    )
    assert "No module named 'lockstep'" in found.stderr
    return python


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def house(servers, tmp_path_factory, cluster, bare_python):
    more = {"PYSPARK_PYTHON": bare_python, "PYSPARK_DRIVER_PYTHON": sys.executable}
    with an_airflow(servers, tmp_path_factory.mktemp("cluster-house"), more=more, spark_master=cluster.address) as made:
        yield made


def test_the_engine_travels_to_executors_that_have_not_installed_it(house):
    drill = house.pipeline("travels")
    (house.place.pipelines / "travels" / "transform.py").write_text(WITNESS)

    run_id = drill.trigger()

    assert drill.over(run_id) == "success"
    assert drill.violations() == []
    (places,) = drill.ask("select array_agg(distinct split_part(id, ' ', 2)) from public.travels")[0]
    assert all(".zip/lockstep/" in place for place in places), places


def test_a_worker_killed_in_mid_read_loses_and_doubles_nothing(house, cluster):
    drill = house.pipeline("without_worker", slow=True)
    run_id = drill.trigger()
    drill.until_reading()
    wait_for(lambda: any("pyspark" in processes.command_line(pid) for pid in _below(cluster.parts[-1].pid)), "it reads")
    cluster.kill_worker()
    drill.mark.unlink()
    cluster.add_worker()

    assert drill.over(run_id, seconds=300) == "success"
    assert [state for state, _ in drill.batches()] == ["committed"]
    assert drill.violations() == []
