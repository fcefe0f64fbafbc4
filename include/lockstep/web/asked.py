"""What a reader of the coverage wants to see, and of which streams."""

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
    """What a reader wants to see: a stretch (all of it without), a page of partitions, what is along, and by what to colour."""

    from_: str | None = None
    until: str | None = None
    first: int = 0
    colour: str = "lane"
    along: str = "offsets"


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams on a page, what Kafka says of their logs, and how many there are in all."""

    rows: list[Any]
    bounds: dict[int, Bounds]
    unknown: str | None
    count: int

    def logs(self) -> dict[int, tuple[int, int]]:
        """Log start and position by stream; where the log is not known, its stream's start."""
        known = self.bounds
        return {
            r.stream_id: (b.log_start if (b := known.get(r.stream_id)) else r.start_offset, r.position)
            for r in self.rows
        }


def told(blocks: Iterable[Block], dots: Iterable[Any]) -> dict[str, int]:
    """How much of what nobody should overlook is in the picture."""
    kinds = Counter(block.kind for block in blocks)
    return {
        "holes": kinds["hole"],
        "skipped": kinds["skipped"],
        "losses": kinds["loss"],
        "rejects": sum(dot.rejects for dot in dots),
    }
