"""Kills drivers, Python workers and executors of `lockstep run` by SIGKILL, each at a named fault point.

The process that comes to the point stops itself there. Its part of the tree is then killed from outside.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from signal import SIGKILL
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

    from stack import Calls

SECONDS = 240


class Victim(StrEnum):
    """The part of a run that dies."""

    DRIVER = "driver"  # with its JVM and all that runs below it
    WORKER = "worker"  # the Python process of one Spark task
    EXECUTOR = "executor"  # a JVM that runs tasks and is not the driver's, with its workers


# A task may be tried three times. Only a cluster, even one on this machine, has executors that can die alone.
MASTERS = {Victim.DRIVER: "local[2,3]", Victim.WORKER: "local[2,3]", Victim.EXECUTOR: "local-cluster[2,1,1024]"}


@dataclass(frozen=True, slots=True)
class Kill:
    """A victim, and the fault point at which it dies. `when` says the same in words."""

    victim: Victim
    when: str
    point: str


def strike(stack: Calls, kill: Kill, *words: str) -> None:
    """Runs a command and kills the victim at its point. The command then succeeds, unless the driver was the victim.

    Fails if no process comes to the point, or if a worker or an executor is to die and the driver is there instead.
    """
    armed = stack.home / "armed"
    armed.touch()
    process = stack.start(*words, fault=f"{kill.point}=stop@{armed}", master=MASTERS[kill.victim])
    stopped = _stopped(stack, process, armed, kill)
    for member in _doomed(kill.victim, process, stopped):
        with suppress(psutil.NoSuchProcess):
            member.kill()
    stack.finish(process, -SIGKILL if kill.victim is Victim.DRIVER else 0)


def _stopped(stack: Calls, process: Popen[bytes], armed: Path, kill: Kill) -> psutil.Process:
    """Returns the process that has stopped itself at its fault point."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if (code := process.poll()) is not None:
            raise SystemExit(f"{kill.point} was never reached: the run ended with {code}: {stack.errors()}")
        if not armed.exists():
            for member in _tree(process):
                with suppress(psutil.NoSuchProcess):  # it ended while the tree was looked at
                    if member.status() == psutil.STATUS_STOPPED:
                        return member
        time.sleep(0.05)
    raise SystemExit(f"{kill.point} was not reached within {SECONDS} s")


def _doomed(victim: Victim, process: Popen[bytes], stopped: psutil.Process) -> list[psutil.Process]:
    """Returns the processes that are killed."""
    if victim is Victim.DRIVER:
        return _tree(process)
    above = [parent for parent in stopped.parents() if parent.name() == "java"]  # the nearest first
    if len(above) < (2 if victim is Victim.EXECUTOR else 1):
        raise SystemExit(f"process {stopped.pid} at the fault point is not below a {victim} of Spark")
    return [stopped] if victim is Victim.WORKER else [above[0], *above[0].children(recursive=True)]


def _tree(process: Popen[bytes]) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        return [root, *root.children(recursive=True)]
    return []
