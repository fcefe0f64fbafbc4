"""Judges a pipeline's health: the conditions that hold, the worst first, each with its reason and next command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lockstep.core.planning.decisions import go_on_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from lockstep.core.planning.decisions import Blocked

SIZES = ((86_400, "d"), (3_600, "h"), (60, "min"))
CLOCK_AHEAD = (
    60.0  # seconds that a producer's clock may run ahead; a record from later than that says nothing of its age
)


class Health(StrEnum):
    """The states of a pipeline. Their order here is the order of severity, the worst first."""

    FAILING = "failing"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"
    INTERRUPTED = "interrupted"
    BEHIND = "behind"
    HOLES = "holes"
    WARNED = "warned"
    NOT_PLANNED = "not planned yet"
    OFF = "off"
    PAUSED = "paused"
    FORGOTTEN = "forgotten"
    WELL = "well"


@dataclass(frozen=True, slots=True)
class Condition:
    """One reason why a pipeline is not well, with the next command if there is one."""

    state: Health
    message: str
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """A batch that is planned and not closed. `is_held` is False if its lease is over or its holder is gone."""

    batch_id: int
    lane: str
    request_id: int | None
    preview: bool
    is_held: bool
    failing: bool

    @property
    def is_interrupted(self) -> bool:
        """Tells if nobody works on the batch. A failing batch waits for a person, and a preview changes nothing."""
        return not (self.is_held or self.failing or self.preview)

    def go_on(self, name: str) -> str:
        """Returns the command that goes on with the batch."""
        return go_on_command(name, self.lane, self.request_id)


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """The ledger's facts about a pipeline, and its DAG's if Airflow was asked. `dag_paused` is None if it was not.

    `not_deployed` is the answer of a plan here if a transform is promoted that the folder does not have.
    """

    name: str
    planned: bool
    paused: bool
    work: tuple[Work, ...] = ()
    dag_paused: bool | None = None
    forgotten: bool = False
    not_deployed: Blocked | None = None


def judge_health(known: HealthFacts, seen: Mapping[str, Any] | None, unknown: str | None = None) -> list[Condition]:
    """Returns every condition that holds, the worst first. The list is empty for a pipeline that is well.

    `seen` is the document of `lockstep status`: streams, warnings and ages. It is None if the broker does not answer,
    and `unknown` is then the reason. A pipeline that was forgotten is not judged by anything else.
    """
    if known.forgotten:
        again = f"lockstep forget {known.name} --undo --reason ..."
        return [Condition(Health.FORGOTTEN, "a person ended it, and its history stays", again)]
    found = [*_of_ledger(known), *_of_broker(known, seen, unknown)]
    order = list(Health)
    return sorted(found, key=lambda condition: order.index(condition.state))


def health_word(conditions: Iterable[Condition]) -> Health:
    """Returns the health in one word: the first condition's, or well."""
    return next((condition.state for condition in conditions), Health.WELL)


def age(of: datetime | None, now: datetime) -> float | None:
    """Returns the seconds since a record's time. None if it has none, or one that has not come yet."""
    if of is None or (seconds := (now - of).total_seconds()) < -CLOCK_AHEAD:
        return None
    return max(0.0, round(seconds, 3))


def duration(seconds: float) -> str:
    """Formats as `12 s`, `38 min`, `5 h` or `2 d`."""
    return next((f"{seconds / size:.0f} {unit}" for size, unit in SIZES if seconds >= 2 * size), f"{seconds:.0f} s")


def _of_ledger(known: HealthFacts) -> Iterator[Condition]:
    name = known.name
    for work in known.work:
        if work.failing:
            message = f"batch {work.batch_id}: data or code was refused, and the batch waits"
            yield Condition(Health.FAILING, message, f"lockstep batch {work.batch_id}")
        elif work.is_interrupted:
            message = f"batch {work.batch_id}: nobody works on it, and it is not committed"
            yield Condition(Health.INTERRUPTED, message, work.go_on(name))
    if known.not_deployed:
        yield Condition(Health.BLOCKED, known.not_deployed.reason, known.not_deployed.next_command)
    if not known.planned:
        yield Condition(Health.NOT_PLANNED, "no plan has read its topic yet", f"lockstep run {name}")
    if known.dag_paused:
        yield Condition(Health.OFF, "its DAG is paused in Airflow", f"switch the DAG {name} on in Airflow")
    if known.paused:
        yield Condition(Health.PAUSED, "nothing new is planned", f"lockstep unpause {name}")


def _of_broker(known: HealthFacts, seen: Mapping[str, Any] | None, unknown: str | None) -> Iterator[Condition]:
    name = known.name
    if seen is None:
        yield Condition(Health.UNKNOWN, unknown or "the broker was not asked", None)
        return
    for stream in seen["streams"]:
        where, lag = f"{stream['topic']}-{stream['partition']}", stream["lag_records"]
        if stream["stable_end"] is None:
            yield Condition(Health.BLOCKED, f"{where}: its log is not the same log any more", f"lockstep plan {name}")
        elif lag < 0:
            message = f"{where}: the log ends {-lag} offsets below what was committed"
            yield Condition(Health.BLOCKED, message, f"lockstep plan {name}")
    if holes := sum(stream["holes"] for stream in seen["streams"]):
        skipped = sum(stream["skipped"] for stream in seen["streams"])
        message = f"stretches below the position that no batch covers: {holes}, of which skipped by a person: {skipped}"
        yield Condition(Health.HOLES, message, f"lockstep holes {name}")
    for warning in seen["warnings"]:
        state = Health.BLOCKED if warning["kind"] in {"retention_passed", "topic_gone"} else Health.WARNED
        yield Condition(state, warning["message"], warning["next"])
    if known.planned:
        yield from _late(name, seen)


def _late(name: str, seen: Mapping[str, Any]) -> Iterator[Condition]:
    most = seen["behind_after_seconds"]
    waiting = [stream for stream in seen["streams"] if (stream["lag_records"] or 0) > 0]
    if most is None or not waiting:
        return
    oldest = max(waiting, key=lambda stream: stream["oldest_waiting_seconds"] or 0.0)
    seconds, where = oldest["oldest_waiting_seconds"], f"{oldest['topic']}-{oldest['partition']}"
    if seconds is not None and seconds > most:
        message = f"{where}: the oldest record that waits is {duration(seconds)} old, more than {duration(most)}"
        yield Condition(Health.BEHIND, message, f"lockstep run {name} --until-idle")
    elif any(stream["oldest_waiting_seconds"] is None for stream in waiting):
        yield Condition(Health.UNKNOWN, "the age of some records that wait is not known", f"lockstep status {name}")
