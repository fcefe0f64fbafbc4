"""Forks a process that does one thing, may be killed or stopped on its way, and reports its outcome."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable


# Held by a thread of a test while it works, and by a fork. A lock that a thread of Arrow holds is never free in the child.
AT_WORK = threading.Lock()


def fork_leaving_garbage() -> int:
    """Forks. The child never frees Kafka clients that earlier tests left.

    The child has none of their threads, so freeing them would crash. Hooks of libraries run in the child before fork
    returns, and may collect garbage there.
    """
    gc.disable()
    try:
        pid = os.fork()
        if not pid:
            gc.freeze()
    finally:
        gc.enable()
    return pid


@dataclass
class Outcome:
    """The outcome of a process: `ok` with its result, `refused`, `broken`, or `killed`.

    It has the process's stack if that crashed.
    """

    kind: str
    told: dict = field(default_factory=dict)

    @classmethod
    def of(cls, act: Callable[[], dict], broken_by: type[BaseException] = Exception) -> Outcome:
        """Runs the act and returns its result, its refusal, or the error that is neither."""
        try:
            return cls("ok", act())
        except Refusal as refusal:
            return cls("refused", {"error": str(refusal), "next": refusal.next_command})
        except broken_by as error:
            frames = traceback.extract_tb(error.__traceback__)[-6:]
            way = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
            return cls("broken", {"error": f"{type(error).__name__}: {error} ({way})"})


@dataclass
class Child:
    """A process on its way."""

    pid: int
    answer: int
    armed: Path

    @classmethod
    def fork(cls, armed: Path, fault: str | None, act: Callable[[], dict]) -> Child:
        """Starts `act` in a new process, with the fault armed. The file is gone once the fault was reached."""
        if fault:
            armed.touch()
        read, write = os.pipe()
        with AT_WORK:
            pid = fork_leaving_garbage()
        if pid:
            os.close(write)
            return cls(pid, read, armed)
        os.close(read)
        faulthandler.enable(cls.stack_of(armed).open("w"), all_threads=False)
        os.environ["LOCKSTEP_FAULT"] = f"{fault}@{armed}" if fault else ""
        outcome = Outcome.of(act, BaseException)  # its end is told, whatever it is
        with os.fdopen(write, "w") as out:
            json.dump([outcome.kind, outcome.told], out, default=str)
        os._exit(0)

    @staticmethod
    def stack_of(armed: Path) -> Path:
        """Returns the file in which a process that crashes writes its stack."""
        return armed.with_name(f"{armed.name}.stack")

    def wait(self) -> Outcome:
        """Waits for its outcome. `reached` says if its fault point was on the way."""
        with os.fdopen(self.answer) as told:
            said = told.read()
        _, status = os.waitpid(self.pid, 0)
        reached = not self.armed.exists()
        self.armed.unlink(missing_ok=True)
        stack = self.stack_of(self.armed)
        crashed = {"stack": stack.read_text()} if stack.exists() and stack.stat().st_size else {}
        stack.unlink(missing_ok=True)
        killed = [] if said else ["killed", {"by": signal.Signals(os.WTERMSIG(status)).name} | crashed]
        outcome = Outcome(*(json.loads(said) if said else killed))
        outcome.told["reached"] = reached
        return outcome

    def stopped(self, seconds: float = 120) -> bool:
        """Waits until it has stopped itself (True) or ended (False)."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state in "TZ":
                return state == "T"
            time.sleep(0.005)
        raise AssertionError("neither stopped nor ended")

    def stands(self) -> bool:
        """Returns True if it has stopped itself by now."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def kill(self) -> None:
        """Kills it, because nothing that was started may outlive the test, least of all a stopped process."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def go_on(self) -> None:
        """Lets it continue where it was stopped."""
        os.kill(self.pid, signal.SIGCONT)
