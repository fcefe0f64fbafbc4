"""Tests that sessions with a JVM are warm at the measured size before they count.

Each tuning has two tries.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from peers import page
from peers.contender import APPEND, PEER, Contender, Place
from peers.field import AVAILABLE_NOW, CONTENDERS, NO_JVM, PER_BATCH, PYTHON_COPY, SESSIONS
from peers.found import THROUGHPUT, Found, Run, load
from peers.rounds import MOST_WARM_UPS, Ring, is_steady

MACHINE = dict.fromkeys(
    ("at", "cores", "memory GiB", "processor", "system", "load", "Python", "Spark", "Postgres", "Kafka", "pyarrow"), "?"
)


@pytest.fixture
def turns(monkeypatch):
    """Returns `turns(times)`: a ring whose contenders take so long in turn.

    `asked` has the size and the tuning of each turn.
    """

    def made(times) -> Ring:
        left = iter(times)

        def turn(self, part, contender, number, *_and_more: Any):
            asked.append((part, number, self._best.get(contender.name, contender.tunings[0])))
            seconds = next(left)
            return [] if seconds is None else [Run(part, contender.name, PEER, APPEND, 1, number, number, seconds)]

        asked = []
        monkeypatch.setattr(Ring, "_turn", turn)
        ring = Ring(Place(Path(), "", "", "", 0, Path()), Found(MACHINE))
        return ring, asked  # type: ignore[return-value]

    return made


@pytest.mark.parametrize(
    ("seconds", "is_enough", "why"),
    [
        ((9.3,), False, "one run shows nothing"),
        ((9.3, 7.7), False, "still compiling"),
        ((9.3, 7.7, 7.4), True, "the last two differ by 4 %"),
        ((7.4, 7.4, 7.0), False, "the last two count"),
        ((9.5, 10.0), False, "five percent is not less than five percent"),
    ],
)
def test_two_runs_in_a_row_that_differ_by_less_than_five_percent_are_steady(seconds, is_enough, why):
    assert is_steady(seconds) is is_enough, why


@pytest.mark.parametrize(
    ("seconds", "runs"),
    [
        ((9.3, 7.7, 6.5, 6.4, 6.4), 4),
        ((9.3, 7.7, 6.5, 6.1, 6.0, 6.0), 5),
        pytest.param((6.4, 6.4, 6.4, 6.4, 6.4), 4, id="two alike by chance"),
    ],
)
def test_a_jvm_runs_at_the_measured_size_four_times_and_until_it_is_steady(turns, seconds, runs):
    ring, asked = turns(list(seconds))
    ring.warm([AVAILABLE_NOW], 1_000_000, 4, at=1_000_000)
    assert [number for _, number, _ in asked] == [1_000_000] * runs
    assert [(each.seconds, each.is_warm) for each in ring.found.warm_ups] == [(seconds[:runs], True)]
    assert [run.seconds for run in ring.found.tries] == list(seconds[:runs])
    assert ring.found.runs == [], "no ratio knows a warm-up"


def test_the_bound_of_the_warm_ups_is_told_on_the_page(turns, tmp_path):
    ring, asked = turns([1.1**number for number in range(20)])
    ring.warm([AVAILABLE_NOW], 1_000, 4, at=1_000)
    assert len(asked) == MOST_WARM_UPS
    assert [each.is_warm for each in ring.found.warm_ups] == [False]
    ring.found.save(tmp_path / "found.json")
    line = next(line for line in page.page(load(tmp_path / "found.json")).splitlines() if "not steady" in line)
    assert line.startswith(f"* {AVAILABLE_NOW.name}, 1,000: 1.00, 1.10, 1.21")


def test_a_contender_that_fails_is_not_run_again(turns):
    ring, asked = turns([9.3, None, 6.5])
    ring.warm([AVAILABLE_NOW], 1_000, 4, at=1_000)
    assert len(asked) == 2


def test_a_session_without_a_jvm_runs_once(turns):
    ring, asked = turns([3.0, 3.5])
    ring.warm([PYTHON_COPY[0]], 1_000, 4, at=1_000)
    assert len(asked) == 1
    assert ring.found.warm_ups == []


def test_lockstep_is_warmed_as_long_as_its_peers(turns):
    ring, asked = turns([9.0, 6.0, 5.9, 5.9])
    ring.warm([PER_BATCH], 1_000, 4, at=1_000)
    assert len(asked) == 4
    assert [each.is_warm for each in ring.found.warm_ups] == [True]


def test_all_that_have_a_jvm_are_warmed_lockstep_too():
    assert set(SESSIONS) >= NO_JVM
    warmed = {each.session for each in CONTENDERS} - NO_JVM
    assert warmed == {"lockstep", "lockstep server", "streaming", "Kafka Connect", "Flink"}
    assert PER_BATCH.session in warmed


def test_each_tuning_runs_twice_at_the_measured_size_and_the_faster_one_is_kept(turns):
    small, large = (("rows", "5"),), (("rows", "9"),)
    peer = Contender("a peer", PEER, "streaming", APPEND, "", (small, large))
    ring, asked = turns([7.0, 6.0, 6.2, 6.6, 1.0])
    ring.tune([peer], 1_000_000, 4)
    assert asked == [("tuning", 1_000_000, each) for each in (small, large, large, small)]
    assert ring.found.tuned == {"a peer": "rows 9 (tried 5: 7.0 and 6.6 s; 9: 6.0 and 6.2 s)"}
    ring.tune([replace(peer, session="streaming local[1]")], 1_000_000, 4)
    assert len(asked) == 4, "it is known"
    ring.rounds(THROUGHPUT, [peer], 1_000_000, 4, 1, at=1)
    assert asked[-1] == (THROUGHPUT, 1_000_000, large)
