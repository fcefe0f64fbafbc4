"""Explains why an offset inside a covered range holds no record for a committed reader."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable


class Kind(StrEnum):
    """The kind of an offset. Every kind but `RECORD` is a gap."""

    RECORD = "record"
    TRIMMED = "trimmed"
    ABORTED = "aborted"
    COMPACTED = "compacted"
    MARKER = "marker"
    MARKER_OR_COMPACTED = "marker_or_compacted"
    INVISIBLE = "invisible"


@dataclass(frozen=True, slots=True, order=True)
class Stretch:
    """A stretch of neighbouring offsets `[from_offset, until_offset)` of one kind. It is never empty."""

    from_offset: int
    until_offset: int
    kind: Kind

    def __post_init__(self) -> None:
        if not 0 <= self.from_offset < self.until_offset:
            raise ValueError(f"[{self.from_offset}, {self.until_offset}) is no stretch of offsets")

    @property
    def count(self) -> int:
        """Returns the number of its offsets."""
        return self.until_offset - self.from_offset


@dataclass(frozen=True, slots=True)
class SeenOffsets:
    """The offsets that two readers found in a range, and other known facts about it.

    `committed` was read before `uncommitted`, so compaction in between cannot make a record look aborted. `once` holds
    the offsets that are known to have held a visible record, wherever it is now. `archived` are stretches that files
    hold, in order. Files hold visible records alone, so nobody knows the kind of another offset there.
    """

    log_start: int
    committed: Container[int]
    uncommitted: Container[int]
    once: Container[int] = ()
    compacts: bool = False
    archived: tuple[tuple[int, int], ...] = ()

    def kind(self, offset: int) -> Kind:
        """Returns the kind of one offset. In a compacted log, a marker and a compacted record look alike."""
        is_below = offset < self.log_start
        if is_below and not any(begin <= offset < end for begin, end in self.archived):
            return Kind.TRIMMED
        if offset in self.committed:
            return Kind.RECORD
        if offset in self.uncommitted:
            return Kind.ABORTED
        if offset in self.once:
            return Kind.COMPACTED
        if is_below:
            return Kind.INVISIBLE
        return Kind.MARKER_OR_COMPACTED if self.compacts else Kind.MARKER


def tell_apart(from_offset: int, until_offset: int, seen: SeenOffsets) -> list[Stretch]:
    """Returns the stretches that tile the range, records among them. Neighbours differ in kind."""
    found = []
    for kind, offsets in groupby(range(from_offset, until_offset), key=seen.kind):
        neighbours = list(offsets)
        found.append(Stretch(neighbours[0], neighbours[-1] + 1, kind))
    return found


def join_stretches(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Joins neighbouring stretches of one kind. The stretches must be in order and disjoint."""
    found: list[Stretch] = []
    for stretch in stretches:
        if found and (found[-1].until_offset, found[-1].kind) == (stretch.from_offset, stretch.kind):
            found.append(Stretch(found.pop().from_offset, stretch.until_offset, stretch.kind))
        else:
            found.append(stretch)
    return found
