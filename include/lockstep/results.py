"""Defines the results of `lockstep.run`, `plan`, `replay`, `status` and `verify`, and the errors that they raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadData, BadDefinition, NeedsDecision, Refusal, Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = [
    "BadData",
    "BadDefinition",
    "BatchResult",
    "CheckResult",
    "NeedsDecision",
    "Note",
    "PlanResult",
    "Refusal",
    "RunResult",
    "StatusResult",
    "StreamStatus",
    "StretchResult",
    "Unreachable",
    "VerifyResult",
]


@dataclass(frozen=True, slots=True)
class StretchResult:
    """The offsets of one partition that a batch reads, and the counts of its records.

    A count is None before the commit. `until_offset` is the first offset behind the last.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    delivered: int | None = None
    written: int | None = None
    rejected: int | None = None
    filtered: int | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One batch as the ledger has it, with the seconds that each step took here."""

    batch: int
    lane: str
    state: str
    offsets: tuple[StretchResult, ...]
    seconds: Mapping[str, float]

    @property
    def written(self) -> int:
        """Returns how many records became rows."""
        return sum(each.written or 0 for each in self.offsets)

    @property
    def rejected(self) -> int:
        """Returns how many records were refused with a reason."""
        return sum(each.rejected or 0 for each in self.offsets)


@dataclass(frozen=True, slots=True)
class Note:
    """A warning, or a reason of a pipeline's health, in one sentence. `next_command` is None if there is none to type."""

    kind: str
    message: str
    next_command: str | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """The batches that a call has done, and why it stopped.

    `decision` is `start` or `resume` behind a batch, and `idle` if nothing is left. It is `busy` if somebody else works,
    and `done` for a key whose batch is committed. `sent` counts the changes that were sent to topics.
    """

    pipeline: str
    decision: str
    reason: str | None
    batches: tuple[BatchResult, ...]
    sent: int = 0
    warnings: tuple[Note, ...] = ()

    @property
    def written(self) -> int:
        """Returns how many records became rows."""
        return sum(each.written for each in self.batches)

    @property
    def rejected(self) -> int:
        """Returns how many records were refused with a reason."""
        return sum(each.rejected for each in self.batches)


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The next batch as it would be now. `offsets` are empty if there is none to plan.

    `blocked` says why the pipeline cannot go on, or is None.
    """

    pipeline: str
    decision: str
    reason: str | None
    offsets: tuple[StretchResult, ...]
    blocked: Note | None = None


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """The place of one partition. A value is None if the log is another one, or is gone."""

    topic: str
    partition: int
    position: int
    log_start: int | None
    stable_end: int | None
    lag_records: int | None
    lag_seconds: float | None
    holes: int


@dataclass(frozen=True, slots=True)
class StatusResult:
    """The health of a pipeline and the place of each of its streams.

    `conditions` are the reasons of the health, the worst first. `under_way` are batches that somebody works on.
    """

    pipeline: str
    health: str
    conditions: tuple[Note, ...]
    lag_records: int | None
    oldest_waiting_seconds: float | None
    complete_through: datetime | None
    under_way: tuple[int, ...]
    streams: tuple[StreamStatus, ...]
    warnings: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One promise that was checked. `detail` says what was compared, or names the first offset that breaks it."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The promises that were checked, and the sentence that says how much was compared.

    `next_command` puts wrong rows right, or finds out more about them. It is None if every check holds.
    """

    pipeline: str
    ok: bool
    deep: bool
    checks: tuple[CheckResult, ...]
    conclusion: str
    next_command: str | None


def note_of(document: Mapping[str, Any], kind: str) -> Note:
    """Returns a warning or a condition from its document. `kind` is the field that names its kind."""
    return Note(str(document[kind]), document["message"], document["next"])
