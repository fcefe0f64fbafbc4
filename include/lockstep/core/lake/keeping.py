"""Decides what upkeep does to a lake table: which small files go together, and which snapshots expire."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.lake.lake_findings import SMALL_FILE_BYTES
from lockstep.core.pipeline.schedule import duration_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import timedelta

    from lockstep.core.changes.person import Person

KEEP = "LOCKSTEP_LAKE_KEEP"
KEPT = "7d"
FEWEST_FILES = 5  # fewer small files are not worth a snapshot
MERGED_BYTES = 256 * 2**20  # rows of one merge in memory. Sorting copies them once
MANY_MANIFESTS = 20  # a replay reads each of them


@dataclass(frozen=True, slots=True, order=True)
class SmallFile:
    """A file that is merged with others, with the bounds of its streams and offsets."""

    stream: tuple[int, int]
    offset: tuple[int, int]
    path: str
    rows: int
    bytes: int

    def is_settled(self, log_starts: Mapping[int, int]) -> bool:
        """Returns True if no row of it can be read again: all lie below the log start of their stream."""
        first, last = self.stream
        return first >= 0 and all(self.offset[1] < log_starts.get(s, 0) for s in range(first, last + 1))


@dataclass(frozen=True, slots=True)
class LakeChange:
    """A state of a table that is written and not shown. `files` are those of metadata that it needs alone."""

    commit_uuid: str
    before: str
    after: str
    snapshot_id: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The work that is wanted of upkeep: snapshots that readers were led to since `cutoff` stay.

    Files below `small_bytes` are merged, as many at once as `most_bytes` of memory hold. A dry run only counts.
    """

    person: Person
    cutoff: datetime
    dry_run: bool = False
    small_bytes: int = SMALL_FILE_BYTES
    most_bytes: int = MERGED_BYTES


@dataclass(slots=True)
class Kept:
    """The outcome of upkeep of one table. Numbers are of what was done, or with a dry run of what would be."""

    table: str
    merged_files: int = 0
    into_files: int = 0
    manifests: int = 0
    expired_snapshots: int = 0
    deleted_files: int = 0
    swept_files: int = 0
    left: list[str] = field(default_factory=list)

    @property
    def is_changed(self) -> bool:
        """Returns True if anything was done, or would be."""
        done = self.merged_files, self.manifests, self.expired_snapshots, self.deleted_files, self.swept_files
        return any(done)

    def lines(self) -> list[str]:
        """Returns the outcome in lines for people."""
        counts = (
            (self.merged_files, f"{self.merged_files} small files merged into {self.into_files}"),
            (self.manifests, f"{self.manifests} manifests merged"),
            (self.expired_snapshots, f"{self.expired_snapshots} snapshots expired"),
            (self.deleted_files, f"{self.deleted_files} files deleted that nothing holds any more"),
            (self.swept_files, f"{self.swept_files} files of upkeep that did not end deleted"),
        )
        said = [words for count, words in counts if count] + [f"left for the next time: {why}" for why in self.left]
        return [f"{self.table}:", *(f"  {line}" for line in said or ["nothing to do"])]


def kept_of(text: str) -> timedelta:
    """Returns how long snapshots are kept. Raises `Refusal`, which names the variable."""
    try:
        return duration_of(text or KEPT, KEEP)
    except BadDefinition as error:
        raise Refusal(error.message, next_command=f"set {KEEP} to a duration, such as {KEPT}") from None


def cutoff_of(keep: timedelta, *clocks: datetime) -> datetime:
    """Returns the time before which snapshots may expire, by the clock that is furthest behind.

    A clock that has jumped ahead lets no snapshot expire, and no file of it is deleted.
    """
    least = datetime.min.replace(tzinfo=UTC)
    now = min(clocks)
    return now - keep if keep < now - least else least


def merge_order(files: Iterable[SmallFile], log_starts: Mapping[int, int]) -> list[list[SmallFile]]:
    """Returns the files to merge, in order. Settled ones come first, and are never merged with others."""
    settled: list[SmallFile] = []
    rest: list[SmallFile] = []
    for file in sorted(files):
        (settled if file.is_settled(log_starts) else rest).append(file)
    return [each for each in (settled, rest) if len(each) >= FEWEST_FILES]


def expired_snapshots(
    made: Mapping[int, int], shown: Sequence[tuple[int, int]], named: Collection[int], before_ms: int
) -> list[int]:
    """Returns the snapshots that expire, the oldest first.

    `made` has the time of each, in milliseconds. `shown` has, in order, from which time readers saw which. One expires
    if it was made before that time, nobody was led to it since, and no reference names it.
    """
    until: dict[int, float] = {}
    for (_, snapshot), (end, _) in pairwise(shown):
        until[snapshot] = max(until.get(snapshot, 0), end)
    if shown:
        until[shown[-1][1]] = inf  # readers see it now
    return [
        snapshot
        for snapshot, at in sorted(made.items(), key=lambda each: each[1])
        if at < before_ms and snapshot not in named and until.get(snapshot, at) < before_ms
    ]
