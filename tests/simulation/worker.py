"""Holds what a process keeps from act to act while it lives: a session of the ledger, and an engine with its own."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.adapters.processes import this_owner

if TYPE_CHECKING:
    from lockstep.steps.context import Context
    from simulation.engine import RememberedEngine


@dataclass
class Worker:
    """A process that does act after act. A process that was forked from it is another one, and has to begin anew."""

    at: Context
    engine: RememberedEngine
    pid: int = field(default_factory=os.getpid)

    @property
    def is_here(self) -> bool:
        """Returns True if this process is the worker."""
        return os.getpid() == self.pid

    def close(self) -> None:
        """Closes its sessions. The next act opens others."""
        self.at.close()
        self.engine.close()


def owner_that_is_gone() -> str:
    """Returns a holder of leases as a process of this host that has ended."""
    host, pid, _, *place = this_owner().split("/")
    return "/".join([host, pid, "0", *place])
