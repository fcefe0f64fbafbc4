"""Detects measured times that lie on a grid: a contender whose end is looked for only every so many seconds."""

from __future__ import annotations

import cmath
import math
from collections import defaultdict
from typing import TYPE_CHECKING

from peers.field import CONTENDERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from peers.found import Found

STEPS_SECONDS = (5.0, 2.0, 1.0, 0.5, 0.25, 0.2, 0.1)
FEWEST_TIMES, FEWEST_POINTS = 16, 4
# The mean length of the times as hands of a clock that turns once a step: 1 on a grid, near 0 for continuous times.
AGREEMENT = 0.8


def step_of(times: Sequence[float]) -> float | None:
    """Returns the step of the grid that the times lie on, in seconds, or None.

    Looks only at times longer than the step, and needs 16 of them on four points of the grid or more. A contender that
    takes as long each time lies on one point of any grid.
    """
    return next((step for step in STEPS_SECONDS if _lie_on(step, [each for each in times if each >= step])), None)


def is_decidable(times: Sequence[float]) -> bool:
    """Returns True if there are enough times to find a grid of two seconds, if they lie on one."""
    late = [each for each in times if each >= 2.0]  # noqa: PLR2004 - the grid that Flink's own waiting has
    return len(late) >= FEWEST_TIMES and max(late) - min(late) >= 2.0 * (FEWEST_POINTS - 1)


def times_by_session(found: Found) -> Mapping[str, list[float]]:
    """Returns all seconds measured, warm-ups and tuning too, by session.

    Contenders of one session share its wait.
    """
    sessions = {contender.name: contender.session for contender in CONTENDERS}
    times = defaultdict(list)
    for run in (*found.tries, *found.runs):
        times[sessions.get(run.contender, run.contender)].append(run.seconds)
    return times


def grids(found: Found) -> dict[str, float]:
    """Returns the sessions whose times lie on a grid, with its step."""
    steps = {name: step_of(times) for name, times in times_by_session(found).items()}
    return {name: step for name, step in steps.items() if step is not None}


def _lie_on(step: float, times: Sequence[float]) -> bool:
    if len(times) < FEWEST_TIMES:
        return False
    mean = sum(cmath.exp(2j * math.pi * each / step) for each in times) / len(times)
    phase = cmath.phase(mean) / (2 * math.pi) * step
    points = {round((each - phase) / step) for each in times}
    return abs(mean) >= AGREEMENT and len(points) >= FEWEST_POINTS
