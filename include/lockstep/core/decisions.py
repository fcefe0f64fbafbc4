"""What a plan rests on and what it answers: the values on both sides of `decide`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lockstep.core.lanes import Piece
    from lockstep.core.offsets import Stream, StreamRange, TopicView


@dataclass(frozen=True, slots=True)
class TaskRun:
    """The Airflow task instance that an attempt runs in; all None on the command line."""

    dag_id: str | None = None
    dag_run_id: str | None = None
    task_instance_id: str | None = None
    try_number: int | None = None

    @property
    def owner(self) -> str | None:
        """The name under which a DAG run holds leases: the same for all its tasks and their tries."""
        return f"{self.dag_id} run {self.dag_run_id}" if self.dag_id else None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for a batch: the owner of leases, a key that makes the call repeatable, and what is explicitly allowed."""

    owner: str
    key: str | None = None
    take_over: bool = False
    retry: bool = False
    task_run: TaskRun = TaskRun()
    in_one_process: bool = False

    @property
    def hands_over(self) -> bool:
        """Whether each step is a process of its own, so that the batch is held while nobody works on it (T2)."""
        return self.task_run.dag_id is not None and not self.in_one_process


@dataclass(frozen=True, slots=True)
class Call:
    """The batch that a caller's key already stands for."""

    batch_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A batch that is planned and not closed, with what it still has to read and who holds it.

    `log` is (cluster id, topic, topic id) of the log it was planned on; `request_id` is None in the live lane.
    """

    batch_id: int
    owner: str
    lease_is_live: bool
    lease_until: datetime
    is_callers: bool
    ranges: tuple[StreamRange, ...]
    log: tuple[str, str, str] | None
    lane: str = "live"
    request_id: int | None = None
    is_preview: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """How earlier batches went, in spans; None where there was none."""

    offsets_per_second: float | None = None
    bytes_per_offset: float | None = None


NO_PACE = Pace()


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a decision rests on, read under the pipeline's lock; bounds were read from the broker before it."""

    view: TopicView
    streams: tuple[Stream, ...]
    unfinished: Unfinished | None = None
    call: Call | None = None
    pause: str | None = None
    pace: Pace = NO_PACE
    failures: tuple[int, str | None] = (0, None)
    bound_by: tuple[Mapping[str, Any], ...] = ()
    broken: Blocked | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A new batch with these ranges is to be written down; `pieces` say what each of them replaces, where it is no live one."""

    ranges: tuple[StreamRange, ...]
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Resume:
    """An unfinished batch is to be tried again, over the same offsets."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class Done:
    """The caller's key stands for a batch that is committed."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class Idle:
    """There is nothing to do."""

    reason: str


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody else is doing it."""

    batch_id: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """Going on takes a person's decision; nothing was written.

    One stale answer of a broker is no proof: `readings` is how many in a row must say the same (T6).
    """

    reason: str
    next_command: str
    readings: int = 1


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A fill's or replay's batch can never commit and is to be abandoned; nothing was changed by it (T8)."""

    batch_id: int
    reason: str
    ends_request: bool = False


Decision = Start | Resume | Done | Idle | Busy | Blocked
