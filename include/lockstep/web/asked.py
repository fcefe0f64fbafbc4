"""Holds a reader's choices for the coverage, and the streams of the page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.core.offsets import Bounds
    from lockstep.ledger.picture import Block

COLOURS = ("lane", "age")
ALONG = ("offsets", "time")


@dataclass(frozen=True, slots=True)
class Asked:
    """The choices of a reader: a stretch (or everything), the first partition, the axis, and the colours."""

    from_: str | None = None
    until: str | None = None
    first: int = 0
    colour: str = "lane"
    along: str = "offsets"


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams on a page, their logs' bounds in Kafka, and the number of all streams."""

    rows: list[Any]
    bounds: dict[int, Bounds]
    unknown: str | None
    count: int

    def logs(self) -> dict[int, tuple[int, int]]:
        """Returns log start and position by stream.

        Without known bounds, the stream's start stands for the log start.
        """
        known = self.bounds
        return {
            r.stream_id: (b.log_start if (b := known.get(r.stream_id)) else r.start_offset, r.position)
            for r in self.rows
        }


def told(blocks: Iterable[Block], dots: Iterable[Any]) -> dict[str, int]:
    """Counts the holes, skips, losses and rejects in the picture."""
    kinds = Counter(block.kind for block in blocks)
    return {
        "holes": kinds["hole"],
        "skipped": kinds["skipped"],
        "losses": kinds["loss"],
        "rejects": sum(dot.rejects for dot in dots),
    }
