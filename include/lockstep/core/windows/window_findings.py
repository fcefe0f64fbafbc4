"""Judges how far event time has come: which partitions hold the watermark, and how much comes too late."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.core.health.findings import Check, Judged, warning

if TYPE_CHECKING:
    from datetime import datetime

LONG_HELD = timedelta(hours=1)
LATE_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class TimeFacts:
    """The watermark, the newest event of all partitions, the partitions that hold it, and the rows late and counted."""

    watermark: datetime | None
    newest: datetime | None
    held_by: tuple[str, ...]
    late: int
    counted: int


def window_findings(pipeline: str, facts: TimeFacts | None) -> Judged:
    """Warns about partitions that hold the watermark by an hour, and about a large share of late rows."""
    if facts is None:
        return []
    found: Judged = [None]
    behind = facts.newest is not None and (facts.watermark is None or facts.newest - facts.watermark > LONG_HELD)
    if behind:
        found.append(
            warning(
                Check.TARGET,
                f"windows of {pipeline}",
                f"{', '.join(facts.held_by)} hold the watermark, and others are more than an hour ahead",
                "no window is shown before the watermark has passed it",
                f"lockstep windows {pipeline}; EventTime(idle=...) lets a partition without records go",
            )
        )
    if facts.late > LATE_SHARE * (facts.late + facts.counted):
        found.append(
            warning(
                Check.TARGET,
                f"windows of {pipeline}",
                f"{facts.late:,} of {facts.late + facts.counted:,} rows came too late",
                "late rows are kept and count nowhere",
                f"lockstep late {pipeline}, then a longer delay or lateness, or --admit",
            )
        )
    return found
