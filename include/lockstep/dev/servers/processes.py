"""Starts programs that outlive their command. Identifies them by pid and start time, and stops only those."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from lockstep.adapters.processes import boot_id, start_ticks
from lockstep.adapters.withheld import without
from lockstep.core.errors import Refusal
from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_DEAD = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}

# Kept while we live, so that a child that dies under us is reaped and does not look alive as a zombie.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Process:
    """One run of one program. A pid may be used again, but not with the same start time."""

    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system's user for a program."""

    uid: int
    gid: int


def launch(
    command: Sequence[str],
    *,
    log: Path,
    pid_file: Path | None = None,
    account: Account | None = None,
    environ: Mapping[str, str] | None = None,
) -> Process:
    """Starts the program in a session of its own, without a terminal, its output appended to the log."""
    # The child writes its own pid before it becomes the program: no kill of ours can come between the two.
    note_pid = ("/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(pid_file)) if pid_file else ()
    with log.open("ab") as out:
        child = subprocess.Popen(
            [*note_pid, *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd="/",
            env=clean_environment() if environ is None else environ,
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    _children[child.pid] = child
    return observe(child.pid) or Process(child.pid, "gone at once")


def run_program(
    command: Sequence[str],
    *,
    log: Path,
    account: Account | None = None,
    text: str = "",
    holding: Sequence[int] = (),
    environ: Mapping[str, str] | None = None,
) -> bool:
    """Runs a program to its end on an input, with its output in the log. Returns True if it exited with 0.

    The program inherits the descriptors in `holding`.
    """
    with log.open("ab") as out:
        done = subprocess.run(
            command,
            input=text.encode(),
            stdout=out,
            stderr=out,
            cwd="/",
            env=clean_environment() if environ is None else environ,
            check=False,
            pass_fds=holding,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    return done.returncode == 0


def clean_environment() -> dict[str, str]:
    """Returns our environment without variables that would steer Postgres, and with its messages in English."""
    kept = {name: value for name, value in without(ENVIRONMENT).items() if not name.startswith(("PG", "LOCKSTEP_"))}
    return kept | {"LC_ALL": "C"}


def observe(pid: int) -> Process | None:
    """Returns the process that has this pid now, or None if there is none, or only a zombie."""
    if child := _children.get(pid):
        child.poll()
    try:
        if psutil.Process(pid).status() in _DEAD or (started := start_ticks(pid)) is None:
            return None
    except psutil.NoSuchProcess:
        return None
    return Process(pid, f"{boot_id()}:{started}")


def alive(process: Process) -> bool:
    """Returns True if exactly this run still exists."""
    return observe(process.pid) == process


def command_line(pid: int) -> str:
    """Returns the arguments of a process. Empty if it is gone or hidden from us."""
    try:
        return " ".join([*psutil.Process(pid).cmdline(), ""])
    except psutil.Error:
        return ""


def working_in(folder: Path, name: str) -> Iterator[int]:
    """Yields the processes of that name whose working directory is the folder."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.name() == name and process.cwd() == str(folder):
                yield process.pid


def having(*variables: str) -> Iterator[int]:
    """Yields the processes that were started with each `NAME=value` in their environment."""
    wanted = dict(variable.split("=", 1) for variable in variables).items()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if wanted <= process.environ().items():
                yield process.pid


def stop_process(process: Process, polite: signal.Signals, patience: float) -> None:
    """Ends the process and its group: by the polite signal, and after `patience` seconds by SIGKILL."""
    for number, seconds in ((polite, patience), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + seconds
        if alive(process):
            _signal_group(process, number)
        while alive(process) and time.monotonic() < deadline:
            time.sleep(0.05)
    if alive(process):
        raise Refusal(f"process {process.pid} does not end by SIGKILL.", next_command=f"ps -fp {process.pid}")


def _signal_group(process: Process, number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
    except PermissionError:
        owner = f"process {process.pid} belongs to another user, who must stop it."
        raise Refusal(owner, next_command="lockstep dev down (as that user)") from None


def last_log_line(log: Path) -> str:
    """Returns the last line in a log, for an error's one line."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it left no log")
