"""Limits the size of a batch, and says which limit made it that size."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.definition import Limits
    from lockstep.core.planning.decisions import Pace


@dataclass(frozen=True, slots=True)
class Because:
    """The reason why a batch has its size: `offsets` of the `waiting` ones.

    `limit` is a field of `Limits`, with its `value` and, for seconds and bytes, the pace of earlier batches. It is `end`
    if nothing is left. It is `segment` if a range is as long as one batch may have it.
    """

    limit: str
    value: float | None
    pace: float | None
    offsets: int
    waiting: int

    def document(self) -> dict[str, Any]:
        """Returns the reason as JSON, with its sentence as `text`."""
        return asdict(self) | {"text": str(self)}

    def __str__(self) -> str:
        taken = f"{self.offsets:,} of {self.waiting:,} waiting offsets"
        match self.limit:
            case "end":
                return f"all {self.waiting:,} waiting offsets"
            case "segment":
                return f"{taken}: one unbroken range of whole segments per partition"
            case "seconds":
                return f"{taken}: limit seconds={self.value:g}, at {self.pace:,.1f} offsets a second in earlier batches"
            case "bytes":
                return f"{taken}: limit bytes={self.value:.0f}, at {self.pace:,.1f} bytes an offset in earlier batches"
            case _:
                return f"{taken}: limit {self.limit}={self.value:.0f}"


def budget(limits: Limits, pace: Pace) -> int:
    """Returns how many offsets the next batch may span: the tightest of records, seconds and bytes, at least one."""
    return max(1, int(min(_caps(limits, pace).values())))


def because(limits: Limits, pace: Pace, ranges: Iterable[StreamRange], waiting: int) -> Because:
    """Returns why a batch of these ranges is not longer. `waiting` is how many offsets there were to choose from."""
    spans = [item.offsets.span for item in ranges]
    offsets = sum(spans)
    if offsets >= waiting:
        return Because("end", None, None, offsets, waiting)
    if offsets == budget(limits, pace):
        caps = _caps(limits, pace)
        tightest = min(caps, key=lambda name: caps[name])
        paces = {"seconds": pace.offsets_per_second, "bytes": pace.bytes_per_offset}
        return Because(tightest, getattr(limits, tightest), paces.get(tightest), offsets, waiting)
    if limits.per_partition and max(spans) >= limits.per_partition:
        return Because("per_partition", limits.per_partition, None, offsets, waiting)
    return Because("segment", None, None, offsets, waiting)


def _caps(limits: Limits, pace: Pace) -> dict[str, float]:
    """Returns, per limit that is known by now, the number of offsets that it allows."""
    caps = {"records": float(limits.records)}
    if limits.seconds and pace.offsets_per_second:
        caps["seconds"] = limits.seconds * pace.offsets_per_second
    if limits.bytes and pace.bytes_per_offset:
        caps["bytes"] = limits.bytes / pace.bytes_per_offset
    return caps
