"""Ports on 127.0.0.1: kept where they can be, chosen anew where they cannot."""

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
END = 65_536


def is_free(port: int) -> bool:
    """Whether nobody listens there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def choose(home: Path, *, wanted: int | None = None, taken: Collection[int] = ()) -> int:
    """The wanted port if it is free; else a free one from a place in the range that the folder decides."""
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
    """The port that the environment names, or a refusal when somebody else has it."""
    if not is_free(port):
        raise Refusal(f"port {port} of {variable} is taken on 127.0.0.1.", next_command=f"unset {variable} or free it")
    return port


def answers(port: int, seconds: float = 1.0) -> bool:
    """Whether somebody accepts connections there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds):
            return True
    except OSError:
        return False
