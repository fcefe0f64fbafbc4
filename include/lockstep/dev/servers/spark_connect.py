"""Runs the embedded Spark Connect server below a folder: one warm JVM for all runs."""

from __future__ import annotations

import secrets
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters import java
from lockstep.core.errors import Refusal
from lockstep.core.settings import ENVIRONMENT
from lockstep.dev.private import private_folder, write_privately
from lockstep.dev.servers import ports, processes
from lockstep.dev.setup import jars
from lockstep.dev.setup.spark_submit import spark_submit
from lockstep.engine import shipping
from lockstep.engine.spark import jvm

if TYPE_CHECKING:
    from lockstep.dev.servers.processes import Process

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
# In Spark's own name. As a setting, it would stand in the arguments.
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the variable's name
# Pipelines that run at once share the tasks' slots, instead of the second waiting for the first.
POOLS = """<?xml version="1.0"?>
<allocations><pool name="default"><schedulingMode>FAIR</schedulingMode></pool></allocations>
"""


@dataclass(frozen=True, slots=True)
class SparkServer:
    """A running server with its address."""

    process: Process
    port: int
    token: str = field(repr=False)

    @property
    def remote(self) -> str:
        """Returns the address for clients, as SPARK_REMOTE takes it. The token in it is a secret."""
        return remote_of(self.port, self.token)


def remote_of(port: int, token: str) -> str:
    """Returns the address of a server on this machine. PySpark sends a token without TLS to `localhost` alone."""
    return f"sc://localhost:{port}/;token={token}"


def token_of(home: Path) -> str:
    """Returns the token of the server below this folder. Draws it once, for its owner alone."""
    file = _folder(home) / "token"
    private_folder(file.parent)
    if not file.exists():
        write_privately(file, secrets.token_urlsafe(32))
    return file.read_text()


def start(home: Path, port: int | None = None) -> SparkServer:
    """Returns the answering server below this folder. Starts it, on the port or a free one, if none runs."""
    folder = _folder(home)
    private_folder(folder)
    if server := running(home):
        return _ready(home, server.process)
    chosen = port or ports.choose(home)
    (folder / "port").write_text(str(chosen))
    (folder / "pools.xml").write_text(POOLS)
    (folder / "console.log").unlink(missing_ok=True)
    for old in folder.glob("lockstep-*.zip"):
        old.unlink()
    shutil.rmtree(folder / "scratch", ignore_errors=True)  # of a server that was killed
    code = shipping.archive(folder)
    conf = jvm.settings() | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(chosen),
        "spark.driver.extraJavaOptions": jvm.driver_options(dict(ENVIRONMENT) | {"LOCKSTEP_JARS": str(jars.folder())}),
        "spark.driver.memory": ENVIRONMENT.get("LOCKSTEP_SPARK_MEMORY", "2g"),
        "spark.lockstep.code": Path(code).name,
        "spark.local.dir": str(folder / "scratch"),
        "spark.scheduler.allocation.file": f"file:{folder / 'pools.xml'}",
        "spark.scheduler.mode": "FAIR",
    }
    given = ["--class", SERVER_CLASS, "--name", f"lockstep {folder}", "--py-files", code, "spark-internal"]
    command = spark_submit(_master(), conf, *given)
    environ = (
        processes.clean_environment()
        | java.exports()
        | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", TOKEN: token_of(home)}
    )
    pid_file = folder / "pid"
    return _ready(home, processes.launch(command, log=folder / "console.log", pid_file=pid_file, environ=environ))


def running(home: Path) -> SparkServer | None:
    """Returns the server below this folder if its process lives. Any command may have started it."""
    folder = _folder(home)
    try:
        process = processes.observe(int((folder / "pid").read_text()))
        port = int((folder / "port").read_text())
    except (FileNotFoundError, ValueError):
        return None
    # A crashed server's pid may be another process's by now, but no other is called by our folder.
    if process is None or f"lockstep {folder}" not in processes.command_line(process.pid):
        return None
    return SparkServer(process, port, token_of(home))


def stop(server: SparkServer, patience: float = 20.0) -> None:
    """Ends exactly this run of the server with its workers. Uses SIGKILL if it does not end by itself."""
    processes.stop_process(server.process, signal.SIGTERM, patience)


def kill(server: SparkServer) -> None:
    """Ends the server as a crash would."""
    processes.stop_process(server.process, signal.SIGKILL, 5.0)


def _ready(home: Path, process: Process, patience: float = 90.0) -> SparkServer:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        server = running(home)
        if server and ports.answers(server.port, seconds=0.5):
            return server
        if not processes.alive(process):
            break
        time.sleep(0.1)
    log = _folder(home) / "console.log"
    raise Refusal(
        f"Spark Connect did not answer within {patience:.0f} s: {processes.last_log_line(log)}",
        next_command=f"less {log}",
    )


def _master() -> str:
    return ENVIRONMENT.get("SPARK_MASTER", "local[*]")


def _folder(home: Path) -> Path:
    # Resolved, because a server is recognised by the path that it was started with.
    return home.resolve() / "spark"
