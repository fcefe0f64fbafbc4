"""Names this process as the holder of a lease, and detects that the process which held one is gone."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

PARTS_OF_AN_OWNER = (
    3  # as code before ledger version 19 wrote them. Two more follow since, because host names are not unique.
)
PARTS_OF_AN_OWNER_WITH_PLACE = 5
EXIT_WITH_HOLDER = 3
FIELDS_BEFORE_START = 19  # of /proc/PID/stat, counted behind the command's closing bracket


def this_owner() -> str:
    """Returns this process's name as a holder of leases: host, pid, start, boot and pid namespace."""
    return f"{socket.gethostname()}/{os.getpid()}/{_started(os.getpid())}/{_boot()}/{_pid_namespace()}"


def is_gone(owner: str) -> bool:
    """Returns True if the owner was a process of this host and has ended. Returns False if that cannot be known.

    Two containers may share a host name, so a pid counts only in the owner's boot and pid namespace.
    """
    parts = owner.split("/")
    if len(parts) not in {PARTS_OF_AN_OWNER, PARTS_OF_AN_OWNER_WITH_PLACE} or not parts[1].isdigit():
        return False
    if parts[0] != socket.gethostname() or parts[PARTS_OF_AN_OWNER:] not in ([], [_boot(), _pid_namespace()]):
        return False
    return _started(int(parts[1])) != parts[2]


def end_with(holder: str, seconds: float = 1.0) -> None:
    """Ends this process as soon as its holder is gone, even if the holder was killed."""

    def watch() -> None:
        while not is_gone(holder):
            time.sleep(seconds)
        os.write(2, f"{holder}, which started this, is gone: ending\n".encode())
        os._exit(EXIT_WITH_HOLDER)

    threading.Thread(target=watch, name="holder", daemon=True).start()


def _started(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[FIELDS_BEFORE_START]


def _boot() -> str:
    """Returns the id of the kernel's current boot. All containers of the kernel share it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def _pid_namespace() -> str:
    """Returns the id of the namespace of this process's pids."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return "unknown"
