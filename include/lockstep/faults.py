"""Defines named fault points for crash tests. A point does nothing unless an environment variable arms it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from lockstep.core.settings import ENVIRONMENT

ARMED_BY = "LOCKSTEP_FAULT"


class InjectedFault(Exception):  # noqa: N818 - a test asked for it
    """The fault that a test armed."""


def reach(point: str) -> None:
    """Strikes if `LOCKSTEP_FAULT` arms this point, and does nothing otherwise.

    An armed point has `point=kind@file` among the words of the variable, and its file still exists. Kinds: `kill`
    (SIGKILL to this process), `group` (to its whole process group), `term` (SIGTERM), `stop` (SIGSTOP), `raise`. The
    strike takes the file away, so each fault strikes once, across processes.
    """
    for armed in ENVIRONMENT.get(ARMED_BY, "").split():
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
