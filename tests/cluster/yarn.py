"""Runs YARN for a test: a ResourceManager, and NodeManagers. Each may die with its containers."""

from __future__ import annotations

import os
import re
import subprocess
import urllib.request
from pathlib import Path
from xml.sax.saxutils import escape

from cluster.conftest import below
from lockstep.adapters import java
from lockstep.adapters.jar_lock import sha256
from lockstep.dev.servers import ports, processes
from lockstep.dev.setup import jars
from support.servers.scheduled import kill, wait_for

SERVERS = Path(__file__).with_name("yarn.xml")
SERVER_JARS = {
    "bcpkix-jdk18on-1.78.1.jar": "4b48ea084e5232b9d79ebca1887b9de037b124931807cd60710748c2aee08cc9",
    "bcprov-jdk18on-1.78.1.jar": "add5915e6acfc6ab5836e1fd8a5e21c6488536a8c1f21f386eeb3bf280b702d7",
    "bcutil-jdk18on-1.78.1.jar": "d9fa56f97b0f761ce3bc8d9d74c5d7137a987bf5bd3abfe1003f9bafa45a1d2f",
    "hadoop-client-minicluster-3.4.2.jar": "ae2406c544825b7734b8aad4f87eff60d9ec422284f0b16c2856032083b63c77",
    "istack-commons-runtime-3.0.7.jar": "6443e10ba2e259fb821d9b6becf10db5316285fc30c53cec9d7b19a3877e7fdf",
    "javax.activation-api-1.2.0.jar": "43fdef0b5b6ceb31b0424b208b930c74ab58fac2ceeb7b3f6fd3aeb8b5ca4393",
    "jaxb-api-2.2.11.jar": "273d82f8653b53ad9d00ce2b2febaef357e79a273560e796ff3fcfec765f8910",
    "jaxb-runtime-2.3.1.jar": "45fecfa5c8217ce1f3652ab95179790ec8cc0dec0384bca51cbeb94a293d9f2f",
    "txw2-2.3.1.jar": "34975dde1c6920f1a39791142235689bc3cd357e24d05edd8ff93b885bd68d60",
}
PACKAGE = "org.apache.hadoop.yarn.server"
SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
}


class Yarn:
    """A ResourceManager and one NodeManager with room for a driver and its executor, in processes of this user."""

    def __init__(self, folder: Path) -> None:
        """Fetches the jars and writes the settings. Raises `Refusal` where they cannot be fetched."""
        self.folder, self.nodes, self._made = folder, list[subprocess.Popen[bytes]](), 0
        fetched = folder / "jars"
        jars.retrieve(fetched / "[artifact]-[revision].[ext]", folder / "cache", folder / "ivy.log", wanted=SERVERS)
        assert {name: sha256(fetched / name) for name in SERVER_JARS} == SERVER_JARS
        names = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
        self._ports = known = list[int]()
        for _ in names:
            known.append(ports.choose(folder, taken=known))
        self.settings = {
            f"yarn.resourcemanager.{name}": f"127.0.0.1:{port}" for name, port in zip(names, known, strict=True)
        }
        self.page = f"http://127.0.0.1:{known[-1]}"
        self.settings |= {
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.nm.liveness-monitor.expiry-interval-ms": "30000",  # ten minutes otherwise
        }
        self.conf = self._conf("conf", self.settings)
        self.manager: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.manager = self._start("resourcemanager.ResourceManager", self.conf)
        wait_for(lambda: all(map(ports.answers, self._ports)), "the ResourceManager answers", 300)
        self.add_node()

    def add_node(self, host: str = "127.0.0.1", megabytes: int = 2560) -> None:
        """Starts a NodeManager, and waits until it takes containers. Containers' folders outlive them."""
        self._made += 1
        home = self.folder / f"node-{self._made}"
        there = self.settings | {
            "yarn.nodemanager.hostname": host,
            "yarn.nodemanager.bind-host": host,
            "yarn.nodemanager.address": f"{host}:0",
            "yarn.nodemanager.localizer.address": f"{host}:0",
            "yarn.nodemanager.webapp.address": f"{host}:0",
            "yarn.nodemanager.local-dirs": str(home / "local"),
            "yarn.nodemanager.log-dirs": str(home / "logs"),
            "yarn.nodemanager.delete.debug-delay-sec": "3600",
            "yarn.nodemanager.resource.memory-mb": str(megabytes),
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        }
        before = self.running()
        self.nodes.append(self._start("nodemanager.NodeManager", self._conf(home.name, there)))
        wait_for(lambda: self.running() > before, "the node is registered", 300)

    def running(self) -> int:
        """Returns how many nodes the ResourceManager holds for running."""
        with urllib.request.urlopen(f"{self.page}/ws/v1/cluster/metrics", timeout=20) as page:  # noqa: S310 - of http
            return int(re.search(rb'"activeNodes":(\d+)', page.read())[1])

    def kill_node(self) -> None:
        """Kills the last node with its containers, at once."""
        node, before = self.nodes.pop(), self.running()
        for pid in [node.pid, *below(node.pid)]:
            kill(pid)
        node.wait()
        wait_for(lambda: self.running() < before, "the node counts as lost", 120)

    def parts(self, what: str) -> list[int]:
        """Returns the processes in containers whose command line says this."""
        return [pid for node in self.nodes for pid in below(node.pid) if what in processes.command_line(pid)]

    def stop(self) -> None:
        for server in [*self.nodes, *([self.manager] if self.manager else [])]:
            for pid in [*below(server.pid), server.pid]:
                if processes.observe(pid):
                    kill(pid)
            server.wait()

    def _conf(self, name: str, settings: dict[str, str]) -> Path:
        conf = self.folder / name / "conf"
        conf.mkdir(parents=True)
        files = {"yarn-site": settings, "core-site": {"fs.defaultFS": "file:///"}, "capacity-scheduler": SCHEDULER}
        for file, each in files.items():
            rows = "".join(f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in each.items())
            (conf / f"{file}.xml").write_text(f"<configuration>{rows}</configuration>")
        return conf

    def _start(self, what: str, conf: Path) -> subprocess.Popen[bytes]:
        """Starts one server. Its log is next to its folder, and it knows nothing of Lockstep."""
        path = f"{conf}:{self.folder / 'jars'}/*:{java.pyspark_jars()}/*"
        options = ["-Xmx256m", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LOCKSTEP"))}
        command = [str(java.find_java()), *options, "-cp", path, f"{PACKAGE}.{what}"]
        with (self.folder / f"{conf.parent.name if what.startswith('node') else 'manager'}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environ)
