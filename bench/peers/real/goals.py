"""Lists the goals of the second workload, as ratios of the same rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peers.goals import Goal
from peers.real.field import (
    AVAILABLE_NOW,
    BAD,
    BINARY_COPY,
    CLEAN,
    FIELD,
    NESTED,
    PAIRS,
    PLAIN_PYTHON,
    REST_COLUMN,
    TRANSFORM,
    VIEW,
    memory_part,
)
from peers.sides import Comparison, Side

if TYPE_CHECKING:
    from peers.contender import Contender
    from peers.found import Found

MOST_MEMORY = 1.3
WRONG = "runs with a row lost or too many, or another number of rejects"


def goals(found: Found) -> list[Goal]:
    """Returns all goals in their order. What was not measured has no figure."""

    def ratio(part: str, to: str, contender: Contender, bound: float) -> Goal:
        ours = FIELD[part][1][0]
        name = f"{part} to {to}" if contender is ours else f"{part}, to {contender.name}"
        compared = Comparison(name, Side(part, ours, 0), Side(to, contender, 0))
        return Goal(f"{compared.name} ({ours.name})", f">= {bound:g}", bound, compared.ratio(found.runs))

    return [
        ratio(BAD, CLEAN, VIEW, 0.8),
        ratio(BAD, BAD, PLAIN_PYTHON, 0.8),
        ratio(PAIRS, CLEAN, VIEW, 0.95),
        ratio(NESTED, CLEAN, VIEW, 0.5),
        ratio(REST_COLUMN, CLEAN, VIEW, 0.5),
        ratio(CLEAN, CLEAN, BINARY_COPY, 0.28),
        ratio(CLEAN, CLEAN, PLAIN_PYTHON, 1.0),
        *(ratio(part, part, AVAILABLE_NOW, 1.3) for part in FIELD if part.startswith(TRANSFORM)),
        Goal(
            f"peak PSS, {BAD} to {CLEAN}", f"<= {MOST_MEMORY}", MOST_MEMORY, _memory(found, BAD, CLEAN), at_least=False
        ),
        Goal(WRONG, "0", 0, _wrong(found), at_least=False),
    ]


def peak(found: Found, part: str, contender: str) -> float | None:
    """Returns the most memory of this part's runs, in MiB by proportional set size."""
    return max((run.peak for run in found.of(memory_part(part), contender)), default=None)


def _memory(found: Found, part: str, to: str) -> float | None:
    ours, theirs = peak(found, part, VIEW.name), peak(found, to, VIEW.name)
    return ours / theirs if ours and theirs else None


def _wrong(found: Found) -> float | None:
    return sum(not run.is_right for run in found.runs) if found.runs else None
