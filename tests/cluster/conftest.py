"""Runs a standalone Spark cluster for a test, and a Python for its executors that has their packages alone."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from lockstep.dev.servers import ports, processes
from support.pythons import executors_python
from support.servers.scheduled import kill, wait_for


class Cluster:
    """A master and two workers of one core each, started from the pip package. `more` is in the workers' environment."""

    def __init__(self, folder: Path, hosts: tuple[str, str] = ("127.0.0.1", "127.0.0.1"), **more: str) -> None:
        self.folder, self.parts, self._more = folder, [], more
        port = ports.choose(folder)
        self.address = f"spark://127.0.0.1:{port}"
        self._start(
            "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"
        )
        wait_for(lambda: ports.answers(port), "the master answers", 120)
        for host in hosts:
            self.add_worker(host)
        wait_for(
            lambda: (folder / "0.log").read_text().count("Registering worker") == 2, "both workers are registered", 240
        )

    def add_worker(self, host: str = "127.0.0.1") -> None:
        options = ("--host", host, "--cores", "1", "--memory", "1200m", "--webui-port", "0")
        self._start(
            "org.apache.spark.deploy.worker.Worker", *options, "--work-dir", str(self.folder / "work"), self.address
        )

    def kill_worker(self, number: int = -1) -> None:
        """Kills the last worker, or the given one, with its executors and their Python workers, at once."""
        worker = self.parts.pop(number)
        family = [worker.pid, *below(worker.pid)]
        for pid in family:
            kill(pid)
        worker.wait()

    def family(self, number: int) -> list[int]:
        """Returns the processes below one of the parts: 0 is the master, which has none, the others are workers."""
        return below(self.parts[number].pid)

    def stop(self) -> None:
        for part in self.parts:
            for pid in [*below(part.pid), part.pid]:
                if processes.observe(pid):
                    kill(pid)
            part.wait()

    def _start(self, *command: str) -> None:
        program = str(Path(sys.executable).with_name("spark-class"))
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LOCKSTEP"))}
        environ |= self._more | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        with (self.folder / f"{len(self.parts)}.log").open("ab") as log:
            self.parts.append(subprocess.Popen([program, *command], stdout=log, stderr=log, env=environ))


def below(pid: int) -> list[int]:
    """Returns the processes below this one, and none if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """Returns a Python with the packages of executors, like that of a worker's machine. Spark brings its own."""
    python = executors_python(tmp_path_factory.mktemp("bare"))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    program = "import confluent_kafka, psycopg2, lockstep"
    found = subprocess.run([python, "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert "No module named 'lockstep'" in found.stderr
    return python


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()
