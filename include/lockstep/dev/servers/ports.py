"""Chooses ports on 127.0.0.1: the last one if it is free, else a new one."""

from __future__ import annotations

import socket
import zlib
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

# Below the range from which systems take ports for outgoing connections: ours must still be free next week.
_LOWEST, _HIGHEST = 15_000, 30_000
PORTS_END = 65_536


def is_free(port: int) -> bool:
    """Returns True if no process listens on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def choose(home: Path, *, wanted: int | None = None, taken: Collection[int] = ()) -> int:
    """Returns the wanted port if it is free. Else searches the range, from a place that the folder decides."""
    if wanted is not None and wanted not in taken and is_free(wanted):
        return wanted
    span = _HIGHEST - _LOWEST
    # Two clones begin their search at different places, so starting both at once does not make them meet.
    begin = zlib.crc32(str(home).encode()) % span
    for step in range(span):
        port = _LOWEST + (begin + step) % span
        if port not in taken and is_free(port):
            return port
    raise Refusal(f"no free port between {_LOWEST} and {_HIGHEST} on 127.0.0.1.")


def demand(port: int, variable: str) -> int:
    """Returns the port that the environment names. Raises `Refusal` if it is taken."""
    if not is_free(port):
        raise Refusal(f"port {port} of {variable} is taken on 127.0.0.1.", next_command=f"unset {variable} or free it")
    return port


def answers(port: int, seconds: float = 1.0) -> bool:
    """Returns True if a process accepts connections on the port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds):
            return True
    except OSError:
        return False
