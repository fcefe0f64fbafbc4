"""Makes three network namespaces for a test: a client, a server, and a router that may stop forwarding.

A router that forwards nothing answers nothing. Both ends then send into a void, and their sockets stay open. No proxy
in user space can do that, because its kernel acknowledges what it was sent.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE_NEWNET = 0x40000000
TOOLS = ("unshare", "nsenter", "ip")
CLIENT, SERVER = "10.211.1.2", "10.211.2.2"
CLIENTS_NETWORK = "10.211.1.0/24"
HOLDS_A_NAMESPACE = ("unshare", "--net", "sleep", "600")
# The router gives its two cables to the others. Nothing of this is seen, or reached, from the machine's own network.
ROUTER = """set -e
ip link set lo up
ip link add to_client type veth peer name eth0 netns {client}
ip link add to_server type veth peer name eth0 netns {server}
ip address add 10.211.1.1/24 dev to_client
ip address add 10.211.2.1/24 dev to_server
ip link set to_client up
ip link set to_server up
echo 1 > /proc/sys/net/ipv4/ip_forward
"""
END = """set -e
ip link set lo up
ip address add {own}/24 dev eth0
ip link set eth0 up
ip route add default via {router}
"""


def why_not() -> str | None:
    """Returns why this machine allows no network namespaces, or None if it allows them."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"needs {', '.join(missing)}: apt-get install iproute2 util-linux"
    done = subprocess.run(["unshare", "--net", "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    return None if done.returncode == 0 else f"no network namespaces here: {done.stderr.decode().strip()}"


class Network:
    """A client's and a server's namespace, and the router between them."""

    def __init__(self) -> None:
        self._holders = {name: subprocess.Popen(HOLDS_A_NAMESPACE) for name in ("client", "server", "router")}
        try:
            for holder in self._holders.values():
                _entered(holder.pid)
            pids = {name: holder.pid for name, holder in self._holders.items()}
            self._in("router", ROUTER.format(**pids))
            self._in("client", END.format(own=CLIENT, router="10.211.1.1"))
            self._in("server", END.format(own=SERVER, router="10.211.2.1"))
        except BaseException:
            self.end()
            raise

    def cut(self) -> None:
        """Stops everything in both directions from now on. Neither end is told."""
        self._in("router", "echo 0 > /proc/sys/net/ipv4/ip_forward")

    def heal(self) -> None:
        """Lets everything pass that is sent again from now on."""
        self._in("router", "echo 1 > /proc/sys/net/ipv4/ip_forward")

    def enter(self, name: str) -> None:
        """Moves this thread, and what it starts, into that namespace from now on."""
        _join(f"/proc/{self._holders[name].pid}/ns/net")

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Runs the block in that namespace. The thread comes back after it."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.enter(name)
        try:
            yield
        finally:
            _join(home)
            os.close(home)

    def end(self) -> None:
        """Removes the namespaces, which end with the processes that hold them."""
        for holder in self._holders.values():
            holder.kill()
            holder.wait()

    def _in(self, name: str, script: str) -> None:
        command = ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net", "sh", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def _entered(pid: int) -> None:
    """Waits until the process has its own namespace."""
    ours = Path("/proc/self/ns/net").readlink()
    for _ in range(500):
        if Path(f"/proc/{pid}/ns/net").readlink() != ours:
            return
        time.sleep(0.01)
    raise AssertionError("no namespace was made")


def _join(namespace: str | int) -> None:
    fd = os.open(namespace, os.O_RDONLY) if isinstance(namespace, str) else namespace
    try:
        if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        if isinstance(namespace, str):
            os.close(fd)
