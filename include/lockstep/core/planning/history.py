"""Turns the form or the data interval of a history run into lanes, or a decision, with bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition
from lockstep.core.planning.bounds import AtOffsets, AtTime, bound_of_form
from lockstep.core.states import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from lockstep.core.planning.bounds import Bound

ALL_THAT_IS_LATE = "all that is late counts, or what is late of one partition; leave bounds out"
REPROCESS_FIELD = "reprocess_behavior"  # of a run's conf. The scheduler writes it, as Airflow tells it no task.


class HistoryAction(StrEnum):
    """The choices of a history run's form: two lanes, then decisions. A replay lets admitted records count."""

    FILL = Lane.FILL
    REPLAY = Lane.REPLAY
    ADMIT_LATE = "admit-late"
    ACCEPT_LOSS = "accept-loss"
    SKIP = "skip"
    MIGRATE = "migrate"


class RunMode(StrEnum):
    """The way of a history run. `preview` shows it and stops, `approve` shows it and goes on after an approval."""

    DO = "do"
    PREVIEW = "preview"
    APPROVE = "approve"


class Reprocess(StrEnum):
    """The reprocess behaviors of Airflow's backfills: which of the runs that exist are made again."""

    NONE = "none"
    FAILED = "failed"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """The facts of a run that Airflow has `started`. `interval` is None if Airflow has given none.

    `params` are all of the form's fields. `given` are those that the run was given, without the form's defaults.
    """

    run_id: str
    run_type: str
    clear_number: int
    interval: tuple[datetime, datetime] | None
    params: Mapping[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict)
    started: datetime | None = None

    @property
    def is_about_its_interval(self) -> bool:
        """Returns True if its bounds are its interval. This holds for a backfill, and for a cleared scheduled run."""
        return self.run_type == "backfill" or (self.run_type == "scheduled" and self.clear_number > 0)

    @property
    def asks(self) -> bool:
        """Returns True if the run has work. Scheduled runs only hold the intervals, unless they are cleared."""
        return self.run_type != "scheduled" or self.clear_number > 0

    @property
    def reprocess(self) -> Reprocess | None:
        """Returns the behavior of its backfill. None of another run, and where no scheduler has written it."""
        given = self.given.get(REPROCESS_FIELD) if self.run_type == "backfill" else None
        return Reprocess(given) if given is not None and _is_one_of(Reprocess, REPROCESS_FIELD, given) else None

    @property
    def key(self) -> str:
        """Returns the key of its requests. It is the same for all tries, and another one after a clear (T9)."""
        return f"{self.run_id} cleared {self.clear_number}" if self.clear_number else self.run_id

    def has_key(self, key: str) -> bool:
        """Returns True if this is the run's key, now or before it was cleared."""
        own, numbers = key.partition(" begun ")[0], range(1, self.clear_number + 1)
        return own in {self.run_id, *(f"{self.run_id} cleared {n}" for n in numbers)}


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The work of a run: requests in these lanes, in this order, or without lanes the decision that `action` names.

    `digest` names the changes of a table that were shown. `topic` is the one that offsets and partition are of, where the
    pipeline has several.
    """

    action: HistoryAction
    lanes: tuple[Lane, ...]
    begin: Bound | None
    end: Bound | None
    partition: int | None
    mode: RunMode
    reason: str | None
    digest: str | None = None
    topic: str | None = None


def read_form(run: HistoryRun) -> RequestForm:
    """Combines the form and the interval. Raises `BadDefinition` that names the field which contradicts another."""
    form = run.params
    named = (run.given if run.is_about_its_interval else form).get("action") or None
    action = HistoryAction(named) if named and _is_one_of(HistoryAction, "action", named) else None
    partition, reason = form.get("partition"), (form.get("reason") or "").strip() or None
    begin, end = bound_of_form(form, "from"), bound_of_form(form, "until")
    if run.is_about_its_interval:
        action, lanes = _of_interval(run, action, begin, end)
        begin, end = (AtTime(moment) for moment in run.interval or ())
    elif action is None:
        raise _refused("action", f"choose one: {', '.join(HistoryAction)}")
    else:
        lanes = _lanes(action)
    digest, topic = ((form.get(name) or "").strip() or None for name in ("digest", "topic"))
    asked = RequestForm(action, lanes, begin, end, partition, _mode(form, action), reason, digest, topic)
    if asked.mode == RunMode.APPROVE and reason is None and not run.is_about_its_interval:
        raise _refused("reason", "an approval is asked for: say why, the reviewer reads it")
    _refuse_contradictions(asked)
    return asked


def require_approval(asked: RequestForm, approvers: Sequence[str]) -> None:
    """Refuses a replay or an accepted loss without approval, if the pipeline names approvers."""
    if (
        approvers
        and asked.mode == RunMode.DO
        and (Lane.REPLAY in asked.lanes or asked.action == HistoryAction.ACCEPT_LOSS)
    ):
        raise _refused("approval", f"{asked.action} waits for one of {', '.join(approvers)}: tick the box")


def waits_until(asked: RequestForm, run: HistoryRun, now: datetime, grace: timedelta) -> datetime | None:
    """Returns the moment when the latest of its times is closed, or None if all of them are closed.

    Before that moment, records of that time may still come (T13). Refuses a time of the form that is in the future.
    Waits for an interval that is in the future.
    """
    moments = [bound.moment for bound in (asked.begin, asked.end) if isinstance(bound, AtTime)]
    if not moments or (latest := max(moments)) + grace <= now:
        return None
    if latest > now and not run.is_about_its_interval:
        field = "until_time" if isinstance(asked.end, AtTime) and asked.end.moment == latest else "from_time"
        raise _refused(field, f"{latest.isoformat()} has not come yet; it is {now.isoformat(timespec='seconds')}")
    return latest + grace


def lost_offsets(asked: RequestForm) -> dict[int, tuple[int, int]]:
    """Returns, per partition, the offsets [from, until) to accept as lost. Refuses bounds that are no such offsets."""
    if not (isinstance(asked.begin, AtOffsets) and isinstance(asked.end, AtOffsets)):
        raise _refused("from_offsets", "a loss is named by offsets: from_offsets and until_offsets, no times")
    if asked.begin.offsets.keys() != asked.end.offsets.keys():
        raise _refused("until_offsets", "a loss is named on the same partitions as from_offsets")
    found = {p: (begin, asked.end.offsets[p]) for p, begin in sorted(asked.begin.offsets.items())}
    for p, (begin, end) in found.items():
        if begin >= end:
            raise _refused("until_offsets", f"[{begin}, {end}) of partition {p} holds no offset")
    return found


def _of_interval(
    run: HistoryRun, action: HistoryAction | None, begin: Bound | None, end: Bound | None
) -> tuple[HistoryAction, tuple[Lane, ...]]:
    """Returns the action and the lanes of an interval, those of the form if it names an action.

    Otherwise a cleared run replays what is covered and fills the rest. So does a first run if its backfill reprocesses
    completed ones. Any other first run fills.
    """
    if begin is not None or end is not None:
        field = "from" if begin is not None else "until"
        raise _refused(f"{field}_time, {field}_offsets", "a backfill's bounds are its interval; leave them out")
    if action not in {None, *Lane}:
        raise _refused("action", f"{action} is not for a backfill: trigger a run by hand")
    if run.interval is None:
        raise _refused("data interval", f"run {run.run_id} has none")
    repeats = run.reprocess == Reprocess.COMPLETED or run.clear_number
    if action is not None:
        return action, _lanes(action)
    return (HistoryAction.REPLAY, (Lane.REPLAY, Lane.FILL)) if repeats else (HistoryAction.FILL, (Lane.FILL,))


def _mode(form: Mapping[str, Any], action: HistoryAction) -> RunMode:
    if form.get("preview"):
        return RunMode.PREVIEW
    return RunMode.APPROVE if form.get("approval") and action != HistoryAction.SKIP else RunMode.DO


def _is_one_of(choices: type[StrEnum], field: str, given: Any) -> bool:
    if given not in list(choices):
        raise _refused(field, f"{given!r} is none of {', '.join(choices)}")
    return True


def _lanes(action: HistoryAction) -> tuple[Lane, ...]:
    """Returns the one lane of a fill or replay, that of an admission, and none of another decision."""
    if action == HistoryAction.ADMIT_LATE:
        return (Lane.REPLAY,)
    return tuple(lane for lane in (Lane.FILL, Lane.REPLAY) if lane.value == action.value)


def _refuse_contradictions(asked: RequestForm) -> None:
    begin, end, action, digest = asked.begin, asked.end, asked.action, asked.digest
    bounded, migrates = begin is not None or end is not None, asked.action == HistoryAction.MIGRATE
    skips, previewed, does = action == HistoryAction.SKIP, asked.mode == RunMode.PREVIEW, asked.mode == RunMode.DO
    for is_odd, field_, why in (
        (
            action not in {*Lane} and asked.reason is None,
            "reason",
            f"{action} is a decision: say why, the ledger keeps it",
        ),
        (not asked.lanes and asked.partition is not None, "partition", f"of {action} the offsets name the partitions"),
        (migrates and asked.topic, "topic", "a table is changed for all topics; leave it out"),
        (digest and not migrates, "digest", f"it names changes of a table, and {action} makes none: leave it out"),
        (migrates and bounded, "from_time, until_time", "a table is changed as a whole; leave bounds out"),
        (migrates and does, "approval", "a table is changed once its statements are approved: tick it"),
        (
            migrates and not (digest or previewed),
            "digest",
            "of which changes? A preview or lockstep migrate --propose shows it",
        ),
        (action == HistoryAction.ADMIT_LATE and bounded, "from_time, until_time", ALL_THAT_IS_LATE),
        (skips and begin is not None, "from_time, from_offsets", "a skip begins at the position; say until where"),
        (skips and previewed, "preview", "a skip changes no row: `lockstep status` shows the positions"),
        (
            action == HistoryAction.REPLAY and not bounded and asked.partition is None,
            "from_time, from_offsets",
            "what is to be replayed? Give a bound or a partition",
        ),
    ):
        if is_odd:
            raise _refused(field_, why)
    if action == HistoryAction.ACCEPT_LOSS:
        lost_offsets(asked)
    if isinstance(begin, AtTime) and isinstance(end, AtTime) and begin.moment >= end.moment:
        raise _refused("until_time", f"{end.moment.isoformat()} is not after from_time {begin.moment.isoformat()}")


def _refused(field: str, why: str) -> BadDefinition:
    return BadDefinition(f"{field}: {why}")
