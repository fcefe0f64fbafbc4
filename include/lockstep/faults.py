"""Named fault points for crash tests: unreachable unless an environment variable arms one, and then hit once."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

ARMED_BY = "LOCKSTEP_FAULT"


class InjectedFault(Exception):  # noqa: N818 - a test asked for it
    """The fault that a test armed."""


def reach(point: str) -> None:
    """Does nothing, unless `LOCKSTEP_FAULT` has `point=kind@file` among its words and the file is still there to be taken.

    Kinds: `kill` (SIGKILL to this process), `group` (to its whole process group), `term` (SIGTERM), `stop` (SIGSTOP), `raise`.
    Taking the file is what makes the fault one-shot, across processes.
    """
    for armed in os.environ.get(ARMED_BY, "").split():
        if armed.startswith(f"{point}="):
            kind, _, file = armed.removeprefix(f"{point}=").partition("@")
            with suppress(FileNotFoundError):
                os.unlink(file)  # noqa: PTH108 - imported by every executor: no pathlib
                _strike(kind, point)


def _strike(kind: str, point: str) -> None:
    match kind:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "group":
            os.killpg(os.getpgid(0), signal.SIGKILL)
        case "term":
            os.kill(os.getpid(), signal.SIGTERM)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case _:
            raise InjectedFault(point)
