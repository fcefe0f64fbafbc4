"""Defines the values on both sides of `decide`: the facts of a plan, and its answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockstep.core.states import BatchState, Lane

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lockstep.core.offsets import LogView, Stream, StreamRange
    from lockstep.core.planning.batch_size import Because
    from lockstep.core.planning.lanes import Piece


@dataclass(frozen=True, slots=True)
class TaskRun:
    """The Airflow task instance that an attempt runs in. All values are None on the command line."""

    dag_id: str | None = None
    dag_run_id: str | None = None
    task_instance_id: str | None = None
    try_number: int | None = None
    task_id: str | None = None
    map_index: int | None = None  # of a task that was made for a portion of the work
    airflow: str | None = None  # the name of this Airflow, where several share a ledger

    @property
    def owner(self) -> str | None:
        """Returns the name under which a DAG run holds leases, the same for all its tasks and tries."""
        of_airflow = f" of {self.airflow}" if self.airflow else ""
        return f"{self.dag_id} run {self.dag_run_id}{of_airflow}" if self.dag_id else None


def go_on_command(pipeline: str, lane: str, request_id: int | None) -> str:
    """Returns the command that goes on with a batch. A batch of the live lane has no request."""
    return f"lockstep run {pipeline}" if request_id is None else f"lockstep {lane} {pipeline} --request {request_id}"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller that asks for a batch: the owner of leases, a key that makes the call repeatable, and permissions."""

    owner: str
    key: str | None = None
    take_over: bool = False
    retry: bool = False
    task_run: TaskRun = TaskRun()
    in_one_process: bool = False

    @property
    def hands_over(self) -> bool:
        """Returns True if each step runs in its own process. The run then keeps the batch between steps (T2)."""
        return self.task_run.dag_id is not None and not self.in_one_process


@dataclass(frozen=True, slots=True)
class Call:
    """The batch that was planned for this key of the caller."""

    batch_id: int
    state: BatchState


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A batch that is planned and not closed, with the ranges that it still has to read and its holder.

    `logs` are (cluster id, topic, topic id) of the logs it was planned on, one a topic. `request_id` is None in the live
    lane.
    """

    batch_id: int
    owner: str
    lease_is_live: bool
    lease_until: datetime
    is_callers: bool
    ranges: tuple[StreamRange, ...]
    logs: tuple[tuple[str, str, str], ...]
    lane: Lane = Lane.LIVE
    request_id: int | None = None
    is_preview: bool = False

    def log_of(self, topic: str) -> tuple[str, str, str] | None:
        """Returns the planned log of a topic, or None if nothing of it is left to read."""
        return next((log for log in self.logs if log[1] == topic), None)


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of earlier batches, in spans. A value is None if there was no earlier batch."""

    offsets_per_second: float | None = None
    bytes_per_offset: float | None = None


NO_PACE = Pace()


@dataclass(frozen=True, slots=True)
class Situation:
    """All facts that a decision rests on, read under the pipeline's lock.

    Bounds were read from the broker before it.
    """

    view: LogView
    streams: tuple[Stream, ...]
    unfinished: Unfinished | None = None
    call: Call | None = None
    pause: str | None = None
    pace: Pace = NO_PACE
    failures: tuple[int, str | None] = (0, None)
    bound_by: tuple[Mapping[str, Any], ...] = ()
    broken: Blocked | None = None
    not_deployed: Blocked | None = None
    refused_topic: Blocked | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """The decision to record a new batch with these ranges.

    Outside the live lane, `pieces` say what each range replaces. `because` says why it is not longer.
    """

    ranges: tuple[StreamRange, ...]
    pieces: tuple[Piece, ...] = ()
    because: Because | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Resume:
    """The decision to try an unfinished batch again, over the same offsets."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class Done:
    """The answer that the batch of this caller's key is committed."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class Idle:
    """The answer that there is nothing to do."""

    reason: str


@dataclass(frozen=True, slots=True)
class Busy:
    """The answer that another caller works on it."""

    batch_id: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """The answer that a person must decide first. Nothing was written.

    One stale answer of a broker is no proof. `readings` is the number of answers in a row that must agree (T6).
    """

    reason: str
    next_command: str
    readings: int = 1


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The decision to abandon a batch of a fill or replay that can never commit. The batch has changed nothing (T8)."""

    batch_id: int
    reason: str
    ends_request: bool = False


Decision = Start | Resume | Done | Idle | Busy | Blocked


def decision_document(decision: Decision) -> dict[str, Any]:
    """Returns plan's answer as JSON."""
    document: dict[str, Any] = {"decision": type(decision).__name__.lower()}
    if isinstance(decision, Start) and decision.because:
        document["because"] = decision.because.document()
    if isinstance(decision, Idle | Busy | Blocked):
        document["reason"] = decision.reason
    if isinstance(decision, Blocked):
        document["next"] = decision.next_command
    return document
