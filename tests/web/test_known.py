"""Tests the cache of the broker's answers: no page waits for it longer than its patience, or shows old facts."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from lockstep.web import known
from lockstep.web.known import OLD, RESTS, SECONDS_KEPT, Remembered


class Source:
    """A counter of questions. An answer takes so many seconds of the clock."""

    def __init__(self, clock: Clock, takes: float = 0.0) -> None:
        self.clock, self.takes, self.asked = clock, takes, 0

    def __call__(self) -> int:
        self.asked += 1
        self.clock.now += self.takes
        return self.asked

    def until_asked(self, times: int) -> bool:
        end = time.monotonic() + 60
        while self.asked < times and time.monotonic() < end:
            time.sleep(0.001)
        return self.asked == times


class Clock:
    """A clock that goes only when it is told to."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(known, "time", SimpleNamespace(monotonic=made))
    return made


def test_an_answer_is_kept_and_shown_once_more_while_it_is_asked_for_anew(clock):
    remembered, source = Remembered(), Source(clock)
    assert remembered.get("a", source) == 1
    clock.now += SECONDS_KEPT - 1
    assert remembered.get("a", source) == 1
    assert source.asked == 1
    clock.now += 2
    assert remembered.get("a", source) == 1
    assert source.until_asked(2)


def test_an_answer_of_long_ago_is_not_shown(clock):
    remembered, source = Remembered(), Source(clock)
    assert remembered.get("a", source) == 1
    clock.now += OLD + 1
    assert remembered.get("a", source) == 2


def test_what_takes_long_to_answer_is_asked_for_less_often(clock):
    remembered, source = Remembered(), Source(clock, takes=1.0)
    assert remembered.get("a", source) == 1
    clock.now += RESTS * 1.0 - 1
    assert remembered.get("a", source) == 1
    assert source.asked == 1
    clock.now += 2
    remembered.get("a", source)
    assert source.until_asked(2)


def test_who_is_slow_is_waited_for_no_longer_than_patience_and_asked_once():
    remembered, silent, asked = Remembered(), threading.Event(), []

    def slow() -> str:
        asked.append(1)
        silent.wait(20)
        return "at last"

    begin = time.monotonic()
    assert remembered.all({"a": slow, "b": lambda: "at once"}, patience=0.3) == {"a": None, "b": "at once"}
    assert remembered.get("a", slow, patience=0.1) is None
    assert time.monotonic() - begin < 10
    silent.set()
    assert remembered.get("a", slow, patience=10) == "at last"
    assert asked == [1]


def test_an_error_is_told_to_who_waits_and_the_next_one_asks_again():
    remembered = Remembered()
    with pytest.raises(ZeroDivisionError):
        remembered.get("a", lambda: 1 / 0)
    assert remembered.get("a", lambda: 1) == 1
