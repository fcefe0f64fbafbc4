"""Locks a file, so that one process works at a time. The lock ends with its holder."""

from __future__ import annotations

import fcntl
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def held(file: Path, say: Callable[[str], None], patience: float = 600.0) -> Iterator[int]:
    """Holds the lock for the block. Waits for another holder and says so.

    A child that inherits the descriptor holds the lock, too.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience
    with file.open("a") as opened:
        waiting = False
        while not _taken(opened.fileno()):
            if not waiting:
                say(f"waiting for another command that holds {file}")
            waiting = True
            if time.monotonic() > deadline:
                raise Refusal(f"another command has held {file} for {patience:.0f} s.", next_command=f"fuser -v {file}")
            time.sleep(0.1)
        yield opened.fileno()


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
