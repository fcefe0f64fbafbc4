"""Answers Ctrl-C at once, whatever the program waits for, and ends it soon."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lockstep.cli.exits import Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STOP_SECONDS = 5.0  # to unwind after an interrupt. Then the process ends as it stands, which the ledger is made for.


class Interrupts:
    """A thread that hears of each SIGINT, although the main thread may wait in code that is not Python's.

    At the first, it writes `answer()` and calls `cancel`, which ends what the main thread may wait for. At the second,
    or when the process does not end in time, it ends the process.
    """

    def __init__(self, answer: Callable[[], str], cancel: Callable[[], None]) -> None:
        self._answer, self._cancel = answer, cancel
        self._near, self._far = socket.socketpair()
        self._far.setblocking(False)
        self._is_answered = threading.Event()
        self._thread = threading.Thread(target=self._hear, name="interrupts", daemon=True)
        self.came = False  # set in the main thread, before anything there can catch the interrupt
        self._handler = signal.signal(signal.SIGINT, self._raise)
        self._wakeup = signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        self._thread.start()

    def stop(self) -> None:
        """Stops hearing. After an interrupt, waits for the answer and hears on, because the process is about to end."""
        if self.came:
            self._is_answered.wait(STOP_SECONDS)
            return
        signal.set_wakeup_fd(self._wakeup)
        signal.signal(signal.SIGINT, self._handler)
        self._far.send(b"\0")
        self._thread.join()
        self._far.close()
        self._near.close()

    def _raise(self, *_: object) -> None:
        self.came = True
        logging.disable()  # libraries log tracebacks of what they were interrupted in
        raise KeyboardInterrupt

    def _hear(self) -> None:
        while (heard := self._near.recv(1)) not in {b"", b"\0"}:
            if heard[0] != signal.SIGINT:
                continue
            if self._is_answered.is_set():
                os._exit(Exit.INTERRUPTED)
            _write(self._answer())
            self._is_answered.set()
            end = threading.Timer(STOP_SECONDS, os._exit, (Exit.INTERRUPTED,))
            end.daemon = True
            end.start()
            threading.Thread(target=self._end_waiting, name="cancel", daemon=True).start()

    def _end_waiting(self) -> None:
        with suppress(Exception):  # the process ends in any case
            self._cancel()


@contextmanager
def answered(answer: Callable[[], str], cancel: Callable[[], None]) -> Iterator[Interrupts | None]:
    """Answers interrupts in the block. Raises `KeyboardInterrupt` at its end if one came, whatever became of it.

    Does nothing outside of the main thread, or where SIGINT is ignored or has another handler.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield None
        return
    interrupts = Interrupts(answer, cancel)
    try:
        yield interrupts
    finally:
        interrupts.stop()
        if interrupts.came and not isinstance(sys.exception(), KeyboardInterrupt):
            raise KeyboardInterrupt


def _write(line: str) -> None:
    """Writes one line to standard error by the system alone, because another thread may hold its lock."""
    clear = "\r\x1b[2K" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{clear}{line}\n".encode())
