"""Names the step of a batch that a run is at, and says what an interrupt leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

READING, VALIDATING, COMMITTING, COMPARING = "reading", "validating", "committing", "comparing"


class Activity(str):
    """The step of one batch, as a line for people: `batch 11: reading`."""

    __slots__ = ("batch_id", "step")

    batch_id: int
    step: str

    def __new__(cls, batch_id: int, step: str) -> Self:
        """Makes the line, and keeps its parts."""
        made = super().__new__(cls, f"batch {batch_id}: {step}")
        made.batch_id, made.step = batch_id, step
        return made


@dataclass(frozen=True, slots=True)
class Advance:
    """The share of a batch that is read: records so far, and the offsets of its ranges.

    `of` is None if the rows of a transform are counted, because their number is not known before.
    """

    read: int
    of: int | None


def interrupted_answer(step: str, again: str | None) -> str:
    """Returns the answer to an interrupt at this step. `again` is the command that continues, if anything is left."""
    if again is None:
        return "stopping; nothing was changed"
    if not isinstance(step, Activity):
        return f"stopping; go on with: {again}"
    if step.step == COMMITTING:
        return f"stopping; batch {step.batch_id} may be committed as a whole already; go on with: {again}"
    return f"stopping; batch {step.batch_id} is unfinished, and goes on with: {again}"
