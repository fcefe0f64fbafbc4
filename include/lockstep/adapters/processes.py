"""Names this process as the holder of a lease, and detects that the process which held one is gone."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import psutil

PARTS_OF_AN_OWNER = (
    3  # as code before ledger version 19 wrote them. Two more follow since, because host names are not unique.
)
PARTS_OF_AN_OWNER_WITH_PLACE = 5
EXIT_WITH_HOLDER = 3
UNKNOWN_START = "None"  # a start that cannot be seen. Older code wrote it on systems without /proc


def this_owner() -> str:
    """Returns this process's name as a holder of leases: host, pid, start, boot and pid namespace."""
    return f"{socket.gethostname()}/{os.getpid()}/{start_ticks(os.getpid()) or UNKNOWN_START}/{boot_id()}/{_pid_namespace()}"


def is_gone(owner: str) -> bool:
    """Returns True if the owner was a process of this host and has ended. Returns False if that cannot be known.

    Two containers may share a host name, so a pid counts only in the owner's boot and pid namespace.
    """
    parts = owner.split("/")
    if len(parts) not in {PARTS_OF_AN_OWNER, PARTS_OF_AN_OWNER_WITH_PLACE} or not parts[1].isdigit():
        return False
    if parts[0] != socket.gethostname() or parts[PARTS_OF_AN_OWNER:] not in ([], [boot_id(), _pid_namespace()]):
        return False
    found = start_ticks(int(parts[1]))
    return found is None or (UNKNOWN_START not in {found, parts[2]} and found != parts[2])


def end_with(holder: str, seconds: float = 1.0) -> None:
    """Ends this process as soon as its holder is gone, even if the holder was killed."""

    def watch() -> None:
        while not is_gone(holder):
            time.sleep(seconds)
        os.write(2, f"{holder}, which started this, is gone: ending\n".encode())
        os._exit(EXIT_WITH_HOLDER)

    threading.Thread(target=watch, name="holder", daemon=True).start()


def start_ticks(pid: int) -> str | None:
    """Returns when the process of this pid started, in clock ticks. None if there is none.

    Linux counts from the boot, so that setting the clock changes nothing. Other systems count from 1970.
    """
    try:
        return str(round(_seconds_of_start(pid) * os.sysconf("SC_CLK_TCK")))
    except psutil.AccessDenied:
        return UNKNOWN_START
    except psutil.NoSuchProcess:
        return UNKNOWN_START if _is_hidden(pid) else None


def _seconds_of_start(pid: int) -> float:
    if not psutil.LINUX:
        return float(psutil.Process(pid).create_time())
    while True:  # psutil adds the time of the boot, which moves when the clock is set
        boot = float(psutil.boot_time())
        started = float(psutil.Process(pid).create_time())
        if psutil.boot_time() == boot:
            return started - boot


def _is_hidden(pid: int) -> bool:
    """Returns True for a process that lives and does not show itself, as under hidepid."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return False


def boot_id() -> str:
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
