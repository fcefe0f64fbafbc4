"""Runs three Kafka brokers as one cluster. Each may be killed.

Every record has three copies, and two of them must be in sync.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import time
import uuid
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from lockstep.adapters import java
from lockstep.dev.servers import ports
from lockstep.dev.setup import jars

if TYPE_CHECKING:
    from pathlib import Path

NODES = (1, 2, 3)


class ThreeBrokers:
    """Nodes 1 to 3 below a folder, each a broker and a controller."""

    def __init__(self, home: Path) -> None:
        self.home = home
        taken: list[int] = []
        for _ in range(2 * len(NODES)):
            taken.append(ports.choose(home, taken=taken))
        self.doors = dict(zip(NODES, taken[: len(NODES)], strict=True))
        self.controllers = dict(zip(NODES, taken[len(NODES) :], strict=True))
        self.processes: dict[int, subprocess.Popen] = {}
        cluster_id = base64.urlsafe_b64encode(b"\x01" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        for node in NODES:
            self._format(node, cluster_id)
        for node in NODES:
            self.start(node)
        self._wait()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.doors.values())

    def make_topic(self, name: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topic = NewTopic(name, partitions, len(NODES), config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[name].result(30)

    def leader(self, topic: str, partition: int) -> int:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        described = admin.describe_topics(TopicCollection([topic]))[topic].result(20)
        return int(described.partitions[partition].leader.id)

    def start(self, node: int) -> None:
        with (self.home / f"node-{node}.log").open("ab") as log:
            command = [*self._java(), "kafka.Kafka", str(self.home / f"node-{node}.properties")]
            self.processes[node] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.home)

    def kill(self, node: int) -> None:
        os.kill(self.processes[node].pid, signal.SIGKILL)
        self.processes[node].wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def _java(self) -> list[str]:
        return [str(java.find_java()), "-Xmx384m", "-cp", f"{jars.broker_jars()}/*"]

    def _format(self, node: int, cluster_id: str) -> None:
        listeners = f"PLAINTEXT://127.0.0.1:{self.doors[node]}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": node,
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in self.controllers.items()),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self.controllers[node]}",
            "advertised.listeners": listeners,
            "log.dirs": self.home / f"data-{node}",
            "default.replication.factor": 3,
            "min.insync.replicas": 2,
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.num.partitions": 3,
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            "auto.create.topics.enable": "false",
        }
        file = self.home / f"node-{node}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = [*self._java(), "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(file)]
        subprocess.run(command, check=True, capture_output=True, cwd=self.home)

    def _wait(self, seconds: float = 60) -> None:
        admin, until = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}), time.monotonic() + seconds
        while True:
            try:
                if len(admin.list_topics(timeout=5).brokers) == len(NODES):
                    return
            except KafkaException:
                pass
            assert time.monotonic() < until, "the three did not find each other"
            time.sleep(0.2)
