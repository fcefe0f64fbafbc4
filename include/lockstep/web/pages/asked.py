"""Holds a reader's choices for the coverage, and the streams of the page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.states import CoverageKind
from lockstep.ledger.views.picture import HOLE, PLANNED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.core.offsets import Bounds
    from lockstep.ledger.views.picture import Block

COLOURS = ("lane", "age")
ALONG = ("offsets", "time")
SCALES = ("common", "own")


@dataclass(frozen=True, slots=True)
class CoverageChoices:
    """The choices of a reader: a stretch (or everything), the first partition, the axis, the colours, the scale.

    `last` are hours until now, in place of a stretch of time.
    """

    from_: str | None = None
    until: str | None = None
    first: int = 0
    colour: str = "lane"
    along: str = "offsets"
    scale: str = "common"
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams on a page, and their logs' bounds in Kafka."""

    rows: list[Any]
    bounds: dict[int, Bounds]

    def logs(self) -> dict[int, tuple[int, int]]:
        """Returns log start and position by stream.

        Without known bounds, the stream's start stands for the log start.
        """
        known = self.bounds
        return {
            r.stream_id: (b.log_start if (b := known.get(r.stream_id)) else r.start_offset, r.position)
            for r in self.rows
        }


def count_kinds(blocks: Iterable[Block], dots: Iterable[Any]) -> dict[str, int]:
    """Counts the holes, skips, losses, planned stretches and rejects in the picture."""
    kinds = Counter(block.kind for block in blocks)
    return {
        "holes": kinds[HOLE],
        "skipped": kinds[CoverageKind.SKIPPED],
        "losses": kinds[CoverageKind.LOSS],
        "planned": kinds[PLANNED],
        "rejects": sum(dot.rejects for dot in dots),
    }
