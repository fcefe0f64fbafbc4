"""Measures how fast records come into each partition: by the log today, and by what the ledger has counted."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.core.planning.hours import HOUR
from lockstep.core.retention.prospects import rate_since, stored_size, worst

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import TopicView
    from lockstep.core.retention.prospects import Rate, Volume

DAYS_OF_HISTORY = 7
TODAY = timedelta(hours=24)


def paces_of(
    broker: Broker, view: TopicView, pasts: Mapping[int, Volume], now: datetime
) -> dict[int, tuple[Rate, Rate]]:
    """Returns today's pace of each partition and its worst hour: of the ledger, or the last one of the log."""
    looks = [(now - ago, broker.first_at(view, now - ago)) for ago in (TODAY, HOUR)]
    found: dict[int, tuple[Rate, Rate]] = {}
    for p, bounds in view.bounds.items():
        size, seen = record_size(pasts, p), []
        for moment, first in looks:
            offset, stamp = first[p]
            # A log that does not reach back so far began with its first record.
            begins = stamp if stamp and offset <= bounds.log_start else moment
            seen.append(rate_since(bounds.stable_end - offset, begins, now, size))
        before = [pasts[p].worst_rate()] if p in pasts else []
        found[p] = seen[0], worst([*seen, *before])
    return found


def record_size(pasts: Mapping[int, Volume], partition: int) -> float | None:
    """Returns the bytes of a partition's record in the log, or those of any partition's. None if none is known."""
    return stored_size([pasts[partition]] if partition in pasts else pasts.values())
