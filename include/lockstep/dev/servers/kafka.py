"""Runs the embedded Kafka: one KRaft node, broker and controller, below a folder."""

from __future__ import annotations

import base64
import shutil
import signal
import time
import uuid
from dataclasses import dataclass
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lockstep.adapters import java
from lockstep.core.errors import Refusal
from lockstep.dev.private import private_folder
from lockstep.dev.servers import ports, processes
from lockstep.dev.setup import jars

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lockstep.dev.servers.processes import Process

_NODE = "1"
# One node holds everything once, and few partitions of its own topics open quickly.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": _NODE,
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "num.partitions": "4",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After a crash the controller waits this long before it lets the same broker in again (by default 9 s).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Topics keep everything: what is shown once must be there to be proved again.
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
}


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """A running broker with its address."""

    process: Process
    port: int
    cluster_id: str

    @property
    def bootstrap(self) -> str:
        """Returns the address for clients."""
        return f"127.0.0.1:{self.port}"


def start(
    home: Path,
    port: int | None = None,
    *,
    jar_folder: Path | None = None,
    doors: Mapping[str, int] = MappingProxyType({}),
    more: Mapping[str, str] = MappingProxyType({}),
) -> BrokerProcess:
    """Returns the answering broker below this folder. Starts it, on the port or a free one, if none runs.

    `doors` are further listeners by their protocol. `more` are settings that the listeners or a test need.
    """
    folder = _folder(home)
    private_folder(folder)  # its segments hold every record
    if broker := running(home):
        return _ready(home, broker.process)
    program = _program(jar_folder or jars.broker_jars(), folder)
    _format_once(folder, program)
    chosen = port or ports.choose(home)
    controller = ports.choose(home, taken=[chosen, *doors.values()])
    _configure(folder / "server.properties", folder / "data", chosen, controller, doors, more)
    command = [*program, "kafka.Kafka", str(folder / "server.properties")]
    return _ready(home, processes.launch(command, log=folder / "console.log", pid_file=folder / "pid"))


def running(home: Path) -> BrokerProcess | None:
    """Returns the broker below this folder if its process lives. Any command may have started it."""
    folder = _folder(home)
    try:
        process = processes.observe(int((folder / "pid").read_text()))
    except (FileNotFoundError, ValueError):
        return None
    # A crashed broker's pid may be another process's by now, but no other names our properties.
    if process is None or str(folder / "server.properties") not in processes.command_line(process.pid):
        return None
    address = _properties(folder / "server.properties")["advertised.listeners"]
    return BrokerProcess(process, int(address.partition(",")[0].rpartition(":")[2]), _cluster_id(folder))


def stop(broker: BrokerProcess, patience: float = 20.0) -> None:
    """Ends exactly this run of the broker and waits until it is gone. Uses SIGKILL if it does not end by itself."""
    processes.stop_process(broker.process, signal.SIGTERM, patience)


def kill(broker: BrokerProcess) -> None:
    """Ends the broker as a crash would."""
    processes.stop_process(broker.process, signal.SIGKILL, 5.0)


def answering_cluster(bootstrap: str, seconds: float) -> str | None:
    """Returns the cluster id at this address, or None if no broker answers in time."""
    settings = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "reconnect.backoff.max.ms": 200,
    }
    try:
        return str(AdminClient(settings).list_topics(timeout=seconds).cluster_id)
    except KafkaException:
        return None


def _ready(home: Path, process: Process, patience: float = 60.0) -> BrokerProcess:
    folder, deadline = _folder(home), time.monotonic() + patience
    while time.monotonic() < deadline:
        broker = running(home)
        # The id is asked for because another broker may have taken the port a moment before ours.
        if broker and answering_cluster(broker.bootstrap, seconds=1.0) == broker.cluster_id:
            return broker
        if not processes.alive(process):
            break
        time.sleep(0.1)
    words, log = processes.last_log_line(folder / "console.log"), folder / "broker.log"
    raise Refusal(f"the broker did not answer within {patience:.0f} s: {words}", next_command=f"less {log}")


def _program(jar_folder: Path, folder: Path) -> list[str]:
    with as_file(files("lockstep.dev.servers").joinpath("log4j2.properties")) as logging:
        return [
            str(java.find_java()),
            "-Xms128m",
            "-Xmx512m",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:TieredStopAtLevel=1",  # it starts in two thirds of the time
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={logging}",
            f"-Dlockstep.log={folder / 'broker.log'}",
            "-cp",
            f"{jar_folder}/*",
        ]


def _format_once(folder: Path, program: list[str]) -> None:
    """Gives the storage its cluster id. The data folder appears whole, or not at all."""
    if (folder / "data").is_dir():
        return
    fresh = folder / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    properties = folder / "format.properties"
    _configure(properties, fresh, 1, 2)  # nothing listens while it formats, but the ports must differ
    # The first bit is cleared, because an id beginning with a dash would be taken for an option.
    drawn = uuid.uuid4().bytes
    cluster_id = base64.urlsafe_b64encode(bytes([drawn[0] & 0x7F]) + drawn[1:]).decode().rstrip("=")
    command = [*program, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
    log = folder / "format.log"
    if not processes.run_program(command, log=log):
        raise Refusal(
            f"the broker's storage was not formatted: {processes.last_log_line(log)}", next_command=f"less {log}"
        )
    fresh.rename(folder / "data")


def _configure(
    file: Path,
    data: Path,
    port: int,
    controller_port: int,
    doors: Mapping[str, int] = MappingProxyType({}),
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    listeners = [f"{name}://127.0.0.1:{number}" for name, number in {"PLAINTEXT": port, **doors}.items()]
    settings = {
        **_SETTINGS,
        "log.dirs": str(data),
        "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller_port}"]),
        "advertised.listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in ("PLAINTEXT", *doors))]
        ),
        "controller.quorum.voters": f"{_NODE}@127.0.0.1:{controller_port}",
        **more,
    }
    half = file.with_suffix(".half")
    half.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    half.replace(file)


def _folder(home: Path) -> Path:
    # Resolved, because a server is recognised by the path that it was started with.
    return home.resolve() / "kafka"


def _cluster_id(folder: Path) -> str:
    return _properties(folder / "data" / "meta.properties")["cluster.id"]


def _properties(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in file.read_text().splitlines() if not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in lines}
