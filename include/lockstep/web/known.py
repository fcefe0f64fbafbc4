"""Caches the broker's answers and asks beside the pages, so that none of them waits long."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS_KEPT = 5.0
OLD = 30.0  # seconds. An older answer is not shown any more.
ANSWER_PATIENCE = 2.0  # seconds that a page waits for an answer if it has none to show
MOST_OPEN_QUESTIONS = 4  # questions on their way
RESTS = 10  # an answer is kept so many times as long as it took: watching takes a tenth of a server's time at most


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, its time, and its duration in seconds."""

    at: float
    took: float
    told: Any


NEVER_ANSWERED = Answer(-math.inf, 0.0, None)


@dataclass(slots=True)
class Remembered:
    """A cache of recent answers. An older answer is shown once more while a new one is fetched."""

    seconds: float = SECONDS_KEPT
    _kept: dict[str, Answer] = field(default_factory=dict)
    _asked: dict[str, Future[Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_OPEN_QUESTIONS))

    def get(self, name: str, ask: Callable[[], Any], patience: float = ANSWER_PATIENCE) -> Any | None:
        """Returns the answer of that name. Without one, waits at most `patience` seconds for it, then returns None."""
        return self.all({name: ask}, patience)[name]

    def all(self, asks: dict[str, Callable[[], Any]], patience: float = ANSWER_PATIENCE) -> dict[str, Any | None]:
        """Returns the answers of several questions, fetched side by side, with one patience for them all."""
        until = time.monotonic() + patience
        found = {name: self._start(name, ask) for name, ask in asks.items()}
        return {
            name: _within(answer, until) if isinstance(answer, Future) else answer for name, answer in found.items()
        }

    def _start(self, name: str, ask: Callable[[], Any]) -> Any:
        """Returns the cached answer, or the future of one that is being fetched."""
        with self._lock:
            asked, kept = self._asked.get(name), self._kept.get(name, NEVER_ANSWERED)
            age = time.monotonic() - kept.at
            if asked is None and age > max(self.seconds, RESTS * kept.took):
                asked = self._asked[name] = Future()
                threading.Thread(target=self._ask, args=(name, ask, asked), daemon=True).start()
            return kept.told if asked is None or age <= OLD else asked

    def _ask(self, name: str, ask: Callable[[], Any], answered: Future[Any]) -> None:
        try:
            with self._turn:
                begin = time.monotonic()
                told = ask()
        except BaseException as error:  # noqa: BLE001 - whoever waits for the answer is told
            with self._lock:
                self._asked.pop(name)
            answered.set_exception(error)
        else:
            with self._lock:
                now = time.monotonic()
                self._kept[name] = Answer(now, now - begin, told)
                self._asked.pop(name)
            answered.set_result(told)


def _within(answer: Future[Any], until: float) -> Any | None:
    try:
        return answer.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        return None
