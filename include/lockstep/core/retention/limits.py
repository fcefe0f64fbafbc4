"""Reads from a topic's settings how long it keeps a record, and how much of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NEVER = timedelta(days=365_000)  # what is further away than a thousand years does not happen


class RetentionLimit(StrEnum):
    """The setting of a topic that deletes a record: its age, or the size of its partition."""

    TIME = "time"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of a topic. None is no limit."""

    time: timedelta | None
    size: int | None


def retention_of(settings: Mapping[str, str]) -> Retention:
    """Returns the limits that a topic's settings make. Compaction alone is none."""
    if "delete" not in settings.get("cleanup.policy", "delete"):
        return Retention(None, None)
    kept, size = int(settings.get("retention.ms", "-1")), int(settings.get("retention.bytes", "-1"))
    time = timedelta(milliseconds=kept) if 0 <= kept < NEVER / timedelta(milliseconds=1) else None
    return Retention(time, size if size >= 0 else None)
