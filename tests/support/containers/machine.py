"""Runs containers without an engine: processes in namespaces of their own, below one bridge.

Each has its own network, mounts, processes and name, and shares the machine's programs. No right of root is needed where
the system allows user namespaces.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOOLS = ("bash", "curl", "ip", "nsenter", "pg_isready", "psql", "unshare")
NETWORK = "10.212.0"
INSIDE = Path(__file__).with_name("inside.sh")
RELAY = Path(__file__).with_name("relay.py")
OWN = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
USERS = """root:x:0:0::/root:/bin/bash
postgres:x:999:999::/var/lib/postgresql:/bin/bash
nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin
"""
AS_POSTGRES = ("unshare", "--user", "--map-user=999", "--map-group=999")
# Holds the network. When the tests end, however they do, it kills what was started: a pid may be another's by then.
HOLDS = """
while read -r pid; do pids+=("$pid"); done
for pid in "${pids[@]}"; do
    grep -qs -- "$0/" "/proc/$pid/cmdline" && kill -9 "$pid"
done
"""
PATIENCE = 30.0  # seconds until a container has its namespaces


def why_not() -> str | None:
    """Returns why this machine cannot run containers in this way, or None if it can."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"needs {', '.join(missing)}: apt-get install curl iproute2 postgresql-client util-linux"
    tried = "ip link add br0 type bridge && mount -t tmpfs none /mnt && " + " ".join([*AS_POSTGRES, "true"])
    command = ["unshare", "--user", "--map-root-user", *OWN, "sh", "-c", tried]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"no user namespaces here: {done.stderr.strip()}"


@dataclass(frozen=True, slots=True)
class Program:
    """What a container is to run, on which files. `mounts` are `SOURCE:TARGET` or `SOURCE:TARGET:ro`."""

    image: Path
    command: tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)
    hostname: str
    workdir: str
    mounts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """A process with namespaces of its own. `environ` is all that it knows of its surroundings."""

    name: str
    log: Path
    environ: Mapping[str, str]
    workdir: str
    process: subprocess.Popen[bytes]

    def execute(self, command: Sequence[str], seconds: float) -> bool:
        """Runs a command in the container, and returns True if it ends with 0 in time."""
        if (first := self.first()) is None:
            return False
        enter = ["nsenter", f"--target={first}", "--user", "--preserve-credentials"]
        enter += ["--net", "--mount", "--uts", "--ipc", "--pid"]
        program = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', self.workdir, *command]
        with self.log.with_suffix(".health").open("ab") as out:
            done = subprocess.Popen(
                [*enter, *program],
                executable=shutil.which("nsenter"),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=dict(self.environ),
                start_new_session=True,
            )
        try:
            return done.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            done.wait()
            return False

    def first(self) -> int | None:
        """Returns the first process of the container, as the machine numbers it. None if it has ended."""
        try:
            children = psutil.Process(self.process.pid).children()
        except psutil.NoSuchProcess:
            return None
        return children[0].pid if children else None

    def end(self) -> None:
        """Kills every process of the container."""
        self.process.kill()
        self.process.wait()

    def last_lines(self, number: int = 12) -> str:
        """Returns the end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-number:])


class Machine:
    """A bridge, and the containers on it. `hosts` are addresses by name."""

    def __init__(self, folder: Path, hosts: Mapping[str, Sequence[str]]) -> None:
        self.folder, self._hosts, self._relays = folder, hosts, []
        own = ["unshare", "--user", "--map-root-user", "--net", "bash", "-c", HOLDS, str(folder)]
        self._holder = subprocess.Popen(own, stdin=subprocess.PIPE)
        self.containers: list[Container] = []
        self._lock = threading.Lock()
        self._wait_for_namespace(self._holder, Path("/proc/self/ns/net").readlink())
        self._wait_until_root(self._holder)
        self._network(
            "ip link set lo up && ip link add br0 type bridge && ip link set br0 up &&"
            f" ip address add {NETWORK}.1/24 dev br0"
        )

    def start(self, name: str, address: str, program: Program, output: int | None = None) -> Container:
        """Starts a container. What it writes to its output goes to its log, or into the open file of this number."""
        folder = self.folder / "containers" / name
        folder.mkdir(parents=True)
        lines = ["127.0.0.1 localhost", f"{address} {program.hostname}"]
        lines += [f"{one} {other}" for other, all_ in self._hosts.items() for one in all_]
        (folder / "hosts").write_text("\n".join([*lines, ""]))
        (folder / "passwd").write_text(USERS)
        (folder / "resolv.conf").touch()
        log, ours = folder / "log", Path("/proc/self/ns/net").readlink()
        inside = ["bash", str(INSIDE), address, program.hostname, str(folder), str(program.image), program.workdir]
        given = {**program.environ, "HOSTNAME": program.hostname}
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*self._enter(), "unshare", *OWN, *inside, *program.mounts, "--", *program.command],
                executable=shutil.which("nsenter"),
                stdin=subprocess.DEVNULL,
                stdout=out if output is None else output,
                stderr=out,
                env=given,
                cwd="/",
                start_new_session=True,
            )
        self._watch(process)
        made = Container(name, log, given, program.workdir, process)
        self.containers.append(made)
        self._wait_for_namespace(process, ours, Path(f"/proc/{self._holder.pid}/ns/net").readlink())
        cable = f"v{address.rpartition('.')[2]}"
        self._network(
            f"ip link delete {cable} 2>/dev/null; ip link add {cable} type veth peer name eth0 netns {process.pid} &&"
            f" ip link set {cable} master br0 up"
        )
        return made

    def publish(self, port: int, address: str, target: int) -> None:
        """Lets 127.0.0.1:PORT of this machine lead to a container's port. A socket in a folder crosses the networks."""
        socket = self.folder / f"{port}.sock"
        relay = [sys.executable, str(RELAY)]
        self._relays += [
            subprocess.Popen([*self._enter(), *relay, str(socket), f"{address}:{target}"]),
            subprocess.Popen([*relay, f"127.0.0.1:{port}", str(socket)]),
        ]
        for process in self._relays[-2:]:
            self._watch(process)

    def end(self) -> None:
        """Ends all containers, and the network with them."""
        for container in self.containers:
            container.end()
        for process in (*self._relays, self._holder):
            process.kill()
            process.wait()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._holder.stdin.write(b"%d\n" % process.pid)
            self._holder.stdin.flush()

    def _enter(self) -> list[str]:
        return ["nsenter", f"--target={self._holder.pid}", "--user", "--preserve-credentials", "--net"]

    def _network(self, script: str) -> None:
        done = subprocess.run([*self._enter(), "sh", "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    @staticmethod
    def _wait_until_root(process: subprocess.Popen[bytes]) -> None:
        """Waits until the process's users are mapped. A process that enters earlier has no rights once it calls a program."""
        until = time.monotonic() + PATIENCE
        while not Path(f"/proc/{process.pid}/uid_map").read_text().strip():
            assert process.poll() is None, "the network's holder ended before it began"
            assert time.monotonic() < until, f"no users within {PATIENCE:.0f} s"
            time.sleep(0.01)

    @staticmethod
    def _wait_for_namespace(process: subprocess.Popen[bytes], *others: Path) -> None:
        until = time.monotonic() + PATIENCE
        while Path(f"/proc/{process.pid}/ns/net").readlink() in others:
            assert process.poll() is None, "a container ended before it began"
            assert time.monotonic() < until, f"no namespace within {PATIENCE:.0f} s"
            time.sleep(0.01)
