"""Tests that a ratio of the quick bench that falls short is measured twice more, and that the median counts."""

from __future__ import annotations

from typing import Any

import pytest

from peers import quick
from peers.field import AVAILABLE_NOW, BINARY_4, PER_BATCH
from peers.found import Found, Run

APPEND = "PerBatch append : AvailableNow append"


@pytest.mark.parametrize(
    ("measured", "fell", "times"),
    [
        ([1.0, 0.4, 0.4], False, 1),
        ([0.4, 1.0, 1.1], False, 3),
        ([0.4, 1.0, 0.3], True, 3),
        ([0.4, 0.4, 1.0], True, 3),
        ([0.4, None, None], True, 3),
    ],
)
def test_one_bad_figure_of_three_passes_and_two_fail(measured, fell, times):
    other, figures, names = quick.Ratio("another", 2.0, 2.0), iter(measured), []

    def again(name: str) -> float | None:
        names.append(name)
        return next(figures)

    first = quick.Ratio("ours : theirs", next(figures), 1.0)
    kept, judged = quick.confirmed([other, first], again)
    assert (kept, judged.fell) == (other, fell)
    assert names == ["ours : theirs"] * (times - 1)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (APPEND, [(quick.FULL, [PER_BATCH.name, AVAILABLE_NOW.name], 100_000, 4)]),
        (
            "1,000 records in 512 partitions : in 4",
            [(quick.WIDE, [PER_BATCH.name], 1_000, 512), (quick.RUN, [PER_BATCH.name], 1_000, 4)],
        ),
    ],
)
def test_only_the_contenders_of_a_ratio_are_measured_again_and_earlier_runs_do_not_count(name, parts):
    earlier = [Run(part, PER_BATCH.name, "", "", 1, 1, 1, 99.0) for part in (quick.FULL, quick.RUN, quick.WIDE)]
    turns: Any = FakeRing(earlier)
    assert quick.measure_again(turns, name, rounds=2) == 1.0
    assert turns.parts == parts


def test_the_first_measurement_has_every_contender_once_in_each_part():
    turns: Any = FakeRing([])
    assert set(quick.measure(turns).values()) == {1.0}
    assert [(part, len(names), len(set(names))) for part, names, *_ in turns.parts] == [
        (quick.FULL, 7, 7),
        (quick.RUN, 2, 2),
        (quick.WIDE, 1, 1),
    ]
    assert turns.warmed == [name for name in turns.parts[0][1] if name != BINARY_4.name]


class FakeRing:
    """Stands in for a ring of sessions: every record takes a millisecond."""

    def __init__(self, runs: list[Run]) -> None:
        self.found, self.parts, self.warmed = Found(runs=runs), list[tuple](), list[str]()

    def warm(self, contenders, *_: Any, **__: Any):
        self.warmed += [each.name for each in contenders]

    def rounds(self, part, contenders, number, partitions, rounds, *, at):
        self.parts.append((part, [each.name for each in contenders], number, partitions))
        self.found.runs += [
            Run(part, each.name, "", "", turn, at, number, number / 1_000)
            for turn in range(1, rounds + 1)
            for each in contenders
        ]
