"""Ends this process when its work on one record or piece makes no progress. Waiting for others is not counted."""

from __future__ import annotations

import faulthandler
import inspect
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NOTES_FOLDER = (
    "PYTHON_FAULTHANDLER_DIR"  # Spark's folder for a worker's last words, which it adds to the error of its task
)
STANDARD_ERROR = 2
SECONDS_BETWEEN = 1.0  # of two marks of progress, because each is a system call

Item = TypeVar("Item")


@dataclass(slots=True)
class Deadline:
    """The most seconds of work in a `with` block that may pass without progress. Then the process ends by SIGALRM.

    The timer is the kernel's, so that code of C which keeps Python's lock is ended, too. The traceback goes to Spark's
    error of the task, or to standard error. Executors get a deadline by value.
    """

    seconds: float
    _note: IO[str] | int | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        _stop()

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yields the items within the block. Each is progress, at most one a second."""
        due = time.monotonic() + SECONDS_BETWEEN
        for item in items:
            if (now := time.monotonic()) >= due:
                self._begin()
                due = now + SECONDS_BETWEEN
            yield item

    def waiting(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yields items from elsewhere within the block. The time that they take is not counted."""
        while True:
            _stop()
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                self._begin()
            yield item

    def steps(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yields items that are made here, each in a block of its own."""
        while True:
            with self:
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def _begin(self) -> None:
        if self._note is None:
            self._note = _note()
            faulthandler.register(signal.SIGALRM, file=self._note, all_threads=True, chain=True)
        signal.setitimer(signal.ITIMER_REAL, self.seconds + SECONDS_BETWEEN)


def watched(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """Returns the function with a deadline for each call, or for each item of an iterator that it returns."""
    deadline = Deadline(seconds)

    @wraps(function)
    def within(*given: Any, **named: Any) -> Any:
        with deadline:
            made = function(
                *(deadline.waiting(each) if isinstance(each, Iterator) else each for each in given), **named
            )
        return deadline.steps(made) if isinstance(made, Iterator) else made

    with suppress(TypeError, ValueError):  # of a function of C
        within.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return within


def _stop() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)


def _note() -> IO[str] | int:
    folder = ENVIRONMENT.get(NOTES_FOLDER)
    return (Path(folder) / str(os.getpid())).open("a") if folder else STANDARD_ERROR
