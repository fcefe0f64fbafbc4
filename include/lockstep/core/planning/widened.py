"""Compares the offsets that a person asked for with the whole segments that a replay makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.core.offsets import OffsetRange


@dataclass(frozen=True, slots=True)
class Widened:
    """A stretch of a request that is longer than what was asked for. `asked` counts its offsets that were."""

    offsets: OffsetRange
    asked: int


def widened(offsets: OffsetRange, begin: int, end: int) -> Widened | None:
    """Returns the stretch if it reaches over the bounds [begin, end) that were asked for, else None."""
    asked = max(0, min(offsets.until_offset, end) - max(offsets.from_offset, begin))
    return Widened(offsets, asked) if asked < offsets.span else None
