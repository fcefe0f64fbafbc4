"""Runs a session in a separate process, so that its resources are measured apart and it can be ended."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil

from peers.contender import COUNTED
from peers.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from peers.contender import Place, Session, Task

PATIENCE = 600.0


class Failed(Exception):  # noqa: N818 - a contender that failed is a result
    """The failure of a session at its work. The message is one line."""


class Worker:
    """A session, started, called and ended from outside."""

    def __init__(self, name: str, make: Callable[[], Session], place: Place) -> None:
        self._place = place
        self._log = place.home / f"{name.replace(' ', '_')}.log"
        spawned = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawned.Pipe()
        self._process = spawned.Process(target=_serve, args=(make, theirs, self._log), daemon=True)
        self._process.start()
        theirs.close()
        self._family: list[psutil.Process] = []

    def start(self) -> None:
        """Starts the session, which is warm then. Raises `Failed` if it cannot start."""
        self._ask("start", self._place)
        self._family = psutil.Process(self._process.pid).children(recursive=True)

    def prepare(self, task: Task) -> None:
        """Does the work that is not measured."""
        self._ask("prepare", task)

    def run(self, task: Task, *, by_pss: bool = False) -> tuple[float, dict[str, float], Meter]:
        """Returns the seconds, those of the steps that the session reports, and its use of resources."""
        with Meter((self._process.pid or 0,), self._place.postmaster, by_pss=by_pss) as meter:
            seconds, steps = self._ask("run", task)
        return seconds, steps, meter

    def finish(self) -> None:
        """Ends the turn."""
        self._ask("finish")

    def end(self) -> None:
        """Ends the session, and then every process that it has started."""
        with suppress(psutil.NoSuchProcess):
            self._family += psutil.Process(self._process.pid).children(recursive=True)
        with suppress(Failed):
            self._ask("end", patience=30.0)
        for each in self._family:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._process.kill()
        self._process.join()

    def _ask(self, *words: Any, patience: float = PATIENCE) -> Any:
        try:
            self._pipe.send(words)
            if not self._pipe.poll(patience):
                raise Failed(f"no answer to {words[0]} within {patience:.0f} s")
            is_good, answer = self._pipe.recv()
        except (EOFError, OSError):
            raise Failed(f"its process ended at {words[0]}") from None
        if not is_good:
            raise Failed(answer)
        return answer


def _serve(make: Callable[[], Session], pipe: Connection, log: Path) -> None:
    """Answers until the pipe is closed. All output goes to the log."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    session = make()
    while True:
        try:
            what, *given = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, _done(session, what, given)))
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            traceback.print_exc()
            lines = str(error).strip().splitlines() or [""]
            pipe.send((False, f"{type(error).__name__}: {lines[0][:300]}"))


def _done(session: Session, what: str, given: list[Any]) -> Any:
    if what != "run":
        return getattr(session, what)(*given)
    begin = time.perf_counter()
    steps = dict(session.run(*given))
    whole = time.perf_counter() - begin
    return steps.pop(COUNTED, whole), steps
