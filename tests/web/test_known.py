"""What the broker said a moment ago: nobody waits for it longer than he can, and nobody is shown what is old."""

from __future__ import annotations

import threading
import time

import pytest

from lockstep.web import known
from lockstep.web.known import Remembered


def test_an_answer_is_kept_and_shown_once_more_while_it_is_asked_for_anew():
    remembered, answers = Remembered(seconds=0.05), iter(range(10))
    assert remembered.get("a", lambda: next(answers)) == 0
    assert remembered.get("a", lambda: next(answers)) == 0, "not asked again so soon"
    time.sleep(0.06)
    assert remembered.get("a", lambda: next(answers)) == 0
    time.sleep(0.02)
    assert remembered.get("a", lambda: next(answers)) == 1


def test_an_answer_of_long_ago_is_not_shown(monkeypatch):
    remembered, answers = Remembered(seconds=0.01), iter(range(10))
    assert remembered.get("a", lambda: next(answers)) == 0
    monkeypatch.setattr(known, "OLD", 0.02)
    time.sleep(0.03)
    assert remembered.get("a", lambda: next(answers)) == 1


def test_who_is_slow_is_waited_for_no_longer_than_patience_and_asked_once():
    remembered, silent, asked = Remembered(), threading.Event(), []

    def slow() -> str:
        asked.append(1)
        silent.wait(5)
        return "at last"

    begin = time.monotonic()
    assert remembered.all({"a": slow, "b": lambda: "at once"}, patience=0.1) == {"a": None, "b": "at once"}
    assert remembered.get("a", slow, patience=0.1) is None
    assert time.monotonic() - begin < 2
    silent.set()
    assert remembered.get("a", slow) == "at last"
    assert asked == [1]


def test_what_takes_long_to_answer_is_asked_for_less_often():
    remembered, asked = Remembered(seconds=0.01), []

    def slow() -> int:
        time.sleep(0.03)
        asked.append(1)
        return len(asked)

    assert remembered.get("a", slow) == 1
    time.sleep(0.1)
    assert remembered.get("a", slow) == 1
    time.sleep(0.1)
    assert asked == [1], "ten times as long as it took has not passed"


def test_an_error_is_told_to_who_waits_and_the_next_one_asks_again():
    remembered = Remembered()
    with pytest.raises(ZeroDivisionError):
        remembered.get("a", lambda: 1 / 0)
    assert remembered.get("a", lambda: 1) == 1
