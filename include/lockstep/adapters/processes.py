"""Processes of this machine: who we are to a lease, and whether the process that held one is gone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

PARTS_OF_AN_OWNER = 3
FIELDS_BEFORE_START = 19  # of /proc/PID/stat, counted behind the command's closing bracket


def this_owner() -> str:
    """The name under which this process holds leases: host, pid and start, so that a reused pid is somebody else."""
    return f"{socket.gethostname()}/{os.getpid()}/{_started(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Whether the owner was a process of this host and has ended; False whenever that cannot be known."""
    parts = owner.split("/")
    if len(parts) != PARTS_OF_AN_OWNER or parts[0] != socket.gethostname() or not parts[1].isdigit():
        return False
    return _started(int(parts[1])) != parts[2]


def _started(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[FIELDS_BEFORE_START]
