"""Counts the offsets of a pipeline that its batches have read, and those that somebody has given up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.proof.verification import PromiseCheck

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_NAMED_DECISIONS = 3  # the others are only counted


@dataclass(frozen=True, slots=True)
class OffsetCounts:
    """The offsets that positions have passed. Counts those that are lost or skipped, and names their decisions."""

    passed: int = 0
    lost: int = 0
    skipped: int = 0
    lost_by: tuple[int, ...] = ()
    skipped_by: tuple[int, ...] = ()

    @property
    def read(self) -> int:
        """Returns the number of offsets that batches have read."""
        return self.passed - self.lost - self.skipped

    @property
    def is_whole(self) -> bool:
        """Returns True if no offset is given up."""
        return self.read == self.passed

    @property
    def given_up(self) -> str:
        """Returns the counts in words, or an empty text if no offset is given up."""
        return "" if self.is_whole else str(self)

    def document(self) -> dict[str, Any]:
        """Returns the counts, and the decisions, for `--json`."""
        return {
            "passed": self.passed,
            "read": self.read,
            "lost": self.lost,
            "skipped": self.skipped,
            "decisions": sorted({*self.lost_by, *self.skipped_by}),
        }

    def __str__(self) -> str:
        parts = [
            f"{count} {kind} {_named(decisions)}"
            for count, kind, decisions in (
                (self.lost, "lost", self.lost_by),
                (self.skipped, "skipped", self.skipped_by),
            )
            if count
        ]
        return f"{self.read} of {self.passed} offsets; {', '.join(parts)}" if parts else f"all {self.passed} offsets"


@dataclass(frozen=True, slots=True)
class OffsetsCheck(PromiseCheck):
    """The check that each offset that is given up was decided, with the counts of all offsets."""

    offsets: OffsetCounts = OffsetCounts()


def added(counts: Iterable[OffsetCounts]) -> OffsetCounts:
    """Returns the counts of several streams as one."""
    found = list(counts)
    return OffsetCounts(
        sum(each.passed for each in found),
        sum(each.lost for each in found),
        sum(each.skipped for each in found),
        tuple(sorted({one for each in found for one in each.lost_by})),
        tuple(sorted({one for each in found for one in each.skipped_by})),
    )


def offsets_of(checks: Sequence[PromiseCheck]) -> OffsetCounts:
    """Returns the counts that a look at the whole ledger has taken."""
    return next((check.offsets for check in checks if isinstance(check, OffsetsCheck)), OffsetCounts())


def _named(decisions: Sequence[int]) -> str:
    if not decisions:
        return "by no decision"
    if len(decisions) > MOST_NAMED_DECISIONS:
        return f"by {len(decisions)} decisions"
    return f"by decision{'s' if len(decisions) > 1 else ''} {', '.join(map(str, decisions))}"
