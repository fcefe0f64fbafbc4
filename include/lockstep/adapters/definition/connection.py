"""Starts the process that evaluates definitions, keeps it for the life of this one, and speaks with it by lines."""

from __future__ import annotations

import atexit
import os
import re
import select
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.definition.server import SERVER_READY
from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

# All that a definition may know of this process's environment. None of it may hold a secret.
GIVEN = re.compile("PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|LD_LIBRARY_PATH|LOCKSTEP_PIPELINES")
EVALUATOR = """
import sys
sys.path[:] = eval(sys.argv.pop())
from lockstep.adapters.definition.server import answer_requests
answer_requests()
"""
SECONDS_OF_GRACE = 60.0  # beyond what the process itself allows: to start, and to end a definition that hangs


class ServerDied(Exception):  # noqa: N818 - the fact, and no mistake of the one who asks
    """The process ended, or does not answer, before it said what was asked."""


class DefinitionServer:
    """The process that evaluates definitions. It ends when this process ends, whatever ends this one."""

    def __init__(self) -> None:
        """Starts the process and waits until it is ready. Raises `OSError` if it cannot be started."""
        path = [str(Path(each or ".").resolve()) for each in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", EVALUATOR, repr(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=given_environment(),
            close_fds=True,
            start_new_session=True,  # Ctrl-C ends this process, and its end is that one's
        )
        try:
            line = self._line(SECONDS_OF_GRACE)
        except BaseException as error:
            self.end()
            if isinstance(error, ServerDied):
                raise OSError(str(error)) from None
            raise
        if line != SERVER_READY:
            self.end()
            raise OSError(f"it began with {line[:80]!r}")

    def answer(self, request: bytes, seconds: float) -> bytes:
        """Returns the line that answers a request, which may take these seconds. Raises `ServerDied`."""
        left = memoryview(request + b"\n")
        try:
            while left:
                left = left[self._process.stdin.write(left) :]  # type: ignore[union-attr]  # it is a pipe
        except BrokenPipeError:
            raise self._died() from None
        except OSError as error:  # a daemon has closed its descriptors, and these with them
            raise ServerDied(str(error)) from None
        return self._line(seconds + SECONDS_OF_GRACE)

    @property
    def runs(self) -> bool:
        """Returns whether the process is there."""
        return self._process.poll() is None

    def _line(self, seconds: float) -> bytes:
        out, found, until = self._process.stdout, [b""], time.monotonic() + seconds
        poll = select.poll()
        poll.register(out, select.POLLIN)  # type: ignore[arg-type]  # it is a pipe
        while not found[-1].endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise ServerDied(f"no answer within {seconds:.0f} s")
            piece = out.read(2**16)  # type: ignore[union-attr]  # it is a pipe
            if not piece:
                raise self._died()
            found.append(piece)
        return b"".join(found)[:-1]

    def _died(self) -> ServerDied:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self._process.kill()
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()  # type: ignore[union-attr]
        code = self._process.wait()
        return ServerDied(lines[-1] if lines else f"signal {-code}" if code < 0 else f"exit code {code}")

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        self._close()

    def leave(self) -> None:
        """Closes what a fork has of the process, which stays its parent's."""
        self._process.returncode = 0  # or it would be waited for
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]  # each is a pipe


class _Holder:
    """The one server of this process, and who speaks with it."""

    def __init__(self) -> None:
        self.server: DefinitionServer | None = None
        self.lock = threading.Lock()


_holder = _Holder()


@contextmanager
def one_server() -> Iterator[DefinitionServer]:
    """Yields this process's server to one thread at a time. Starts it if there is none that runs. Raises `OSError`."""
    with _holder.lock:
        if _holder.server and not _holder.server.runs:
            _forget()
        if _holder.server is None:
            _holder.server = DefinitionServer()
        try:
            yield _holder.server
        except BaseException:  # Ctrl-C too: the next request must not find the answer to this one
            server, _holder.server = _holder.server, None
            server.end()
            raise


def given_environment() -> dict[str, str]:
    """Returns what a definition may know of this process's environment."""
    return {name: value for name, value in ENVIRONMENT.items() if GIVEN.fullmatch(name)}


def _forget() -> None:
    if _holder.server:
        _holder.server.leave()
    _holder.server = None


def _leave_to_parent() -> None:
    # A fork must not speak into its parent's pipe, and the process must not outlive the parent because of it.
    _holder.lock = threading.Lock()  # another thread of the parent may hold the old one
    _forget()


def _end() -> None:
    if _holder.server:
        _holder.server.end()


os.register_at_fork(after_in_child=_leave_to_parent)
atexit.register(_end)
