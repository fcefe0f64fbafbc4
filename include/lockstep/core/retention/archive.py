"""Defines where a pipeline's raw records are copied before retention deletes them, and which of them are due."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from lockstep.core.errors import BadDefinition
from lockstep.core.offsets import Bounds
from lockstep.core.pipeline.schedule import duration_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from lockstep.core.offsets import OffsetRange

SCHEMES = ("file", "s3")
S3_OPTIONS = frozenset({"region", "scheme", "endpoint_override"})  # none of them is a secret
_BUCKET = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{1,62}\Z")


@dataclass(frozen=True, slots=True)
class Archive:
    """The place of a pipeline's raw records, such as `file:///srv/archive` or `s3://bucket/prefix?region=eu-central-1`.

    `lockstep archive` copies what retention may delete `within` a duration such as `24h`. Keys of a store are never part
    of the place: they come from the environment.
    """

    place: str
    within: str = "24h"

    def __post_init__(self) -> None:
        duration_of(self.within, "archive.within")
        if not isinstance(self.place, str):
            raise BadDefinition(
                f"archive.place is {type(self.place).__name__}: it must be a text, as file:///srv/archive"
            )
        parts = urlsplit(self.place)
        if "@" in parts.netloc:  # what stands before it may be a key, so it is not repeated
            raise BadDefinition("archive.place holds a login: keys come from the environment, as AWS_ACCESS_KEY_ID")
        if strange := sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} - S3_OPTIONS):
            raise BadDefinition(
                f"archive.place has the option {strange[0]!r}: it may have {', '.join(sorted(S3_OPTIONS))}"
            )
        is_file = parts.scheme == "file" and not parts.netloc and not parts.query and parts.path.startswith("/")
        is_bucket = parts.scheme == "s3" and _BUCKET.match(parts.netloc) is not None
        if parts.fragment or not (is_file or is_bucket):
            shown = self.place.partition("?")[0]
            raise BadDefinition(f"archive.place is {shown!r}: it must be file:///FOLDER or s3://BUCKET/PREFIX")

    @property
    def ahead(self) -> timedelta:
        """Returns how long before its deletion a record is copied."""
        return duration_of(self.within, "archive.within")


@dataclass(frozen=True, slots=True, order=True)
class ArchivedFile:
    """A file that counts: its offsets, its path below the place, and what it must be.

    `digest` are the sums of offsets and of their squares, each less the first offset.
    """

    offsets: OffsetRange
    path: str
    records: int
    digest: tuple[int, int]
    sha256: str


def due_below_size(limit: int, coming: float, size: float | None, high_end: int) -> int:
    """Returns the offset below which records may be deleted by size once `coming` more bytes are in the log.

    `size` are the bytes of a record. Everything is due if it is unknown.
    """
    if size is None or limit <= coming:
        return high_end
    return max(0, high_end - math.floor((limit - coming) / max(size, 1.0)))


def due_stretches(bounds: Bounds, least: int, until: int, known: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the offsets of the log below `until` that no file was written of. `known` are in order and disjoint."""
    at, end = max(bounds.log_start, least), min(until, bounds.stable_end)
    found = []
    for begin, behind in known:
        if at < min(begin, end):
            found.append((at, min(begin, end)))
        at = max(at, behind)
    return [*found, (at, end)] if at < end else found


def missed_stretches(log_start: int, known: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the offsets behind the first file that were deleted before a file was written of them."""
    first = known[0][0] if known else log_start
    return due_stretches(Bounds(min(first, log_start), log_start), 0, log_start, known)
