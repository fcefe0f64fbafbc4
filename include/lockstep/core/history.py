"""Turns the form or the data interval of a history run into lanes, or a decision, with bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.bounds import AtOffsets, AtTime, parse_bound
from lockstep.core.errors import BadDefinition, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from lockstep.core.bounds import Bound

ACTIONS = ("fill", "replay", "accept-loss", "skip")
DO, PREVIEW, APPROVE = "do", "preview", "approve"
NOTHING = "nothing was asked for: a backfill, or a run that is triggered by hand, asks"


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """The facts of a run from Airflow. `params` are the form's fields. `interval` is None if Airflow has given none."""

    run_id: str
    run_type: str
    clear_number: int
    interval: tuple[datetime, datetime] | None
    params: Mapping[str, Any]

    @property
    def is_about_its_interval(self) -> bool:
        """Returns True if its bounds are its interval. This holds for a backfill, and for a cleared scheduled run."""
        return self.run_type == "backfill" or (self.run_type == "scheduled" and self.clear_number > 0)

    @property
    def asks(self) -> bool:
        """Returns True if the run has work. Scheduled runs only hold the intervals, unless they are cleared."""
        return self.run_type != "scheduled" or self.clear_number > 0

    @property
    def key(self) -> str:
        """Returns the key of its requests. It is the same for all tries, and another one after a clear (T9)."""
        return f"{self.run_id} cleared {self.clear_number}" if self.clear_number else self.run_id

    def has_key(self, key: str) -> bool:
        """Returns True if this is the run's key, now or before it was cleared."""
        return key in {self.run_id, *(f"{self.run_id} cleared {n}" for n in range(1, self.clear_number + 1))}


@dataclass(frozen=True, slots=True)
class Asking:
    """The work of a run: requests in these lanes, in this order, or without lanes the decision that `action` names.

    `mode` is `do`, `preview` (show it, and stop) or `approve` (show it, and go on after an approval).
    """

    action: str
    lanes: tuple[str, ...]
    begin: Bound | None
    end: Bound | None
    partition: int | None
    mode: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of the Spark half of a run: `done`, `waits`, `blocked` or `refused`.

    `waits` is for another worker on the same offsets. `blocked` is until a person decides. For a refusal, `reason` is
    the line by which an error names itself.
    """

    state: str
    reason: str
    next_command: str | None = None


def asking(run: HistoryRun) -> Asking:
    """Combines the form and the interval. Raises `BadDefinition` that names the field which contradicts another."""
    form = run.params
    action = form.get("action") or None
    if action not in {None, *ACTIONS}:
        raise _refused("action", f"{action!r} is none of {', '.join(ACTIONS)}")
    partition, reason = form.get("partition"), (form.get("reason") or "").strip() or None
    begin, end = _bound(form, "from"), _bound(form, "until")
    if run.is_about_its_interval:
        action, lanes = _of_interval(run, action, begin, end)
        begin, end = (AtTime(moment) for moment in run.interval or ())
    elif action is None:
        raise _refused("action", f"choose one: {', '.join(ACTIONS)}")
    else:
        lanes = (action,) if action in {"fill", "replay"} else ()
    asked = Asking(action, lanes, begin, end, partition, _mode(form, action), reason)
    _refuse_contradictions(asked)
    return asked


def require_approval(asked: Asking, approvers: Sequence[str]) -> None:
    """Refuses a replay or an accepted loss without approval, if the pipeline names approvers."""
    if approvers and asked.mode == DO and ("replay" in asked.lanes or asked.action == "accept-loss"):
        raise _refused("approval", f"{asked.action} waits for one of {', '.join(approvers)}: tick the box")


def waits_until(asked: Asking, run: HistoryRun, now: datetime, grace: timedelta) -> datetime | None:
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


def lost_offsets(asked: Asking) -> dict[int, tuple[int, int]]:
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
    run: HistoryRun, action: str | None, begin: Bound | None, end: Bound | None
) -> tuple[str, tuple[str, ...]]:
    """Returns the action and the lanes of an interval, those of the form if it names an action.

    Otherwise a first run fills. A cleared run replays what is covered and fills the rest.
    """
    if begin is not None or end is not None:
        field = "from" if begin is not None else "until"
        raise _refused(f"{field}_time, {field}_offsets", "a backfill's bounds are its interval; leave them out")
    if action in {"accept-loss", "skip"}:
        raise _refused("action", f"{action} is not for a backfill: trigger a run by hand")
    if run.interval is None:
        raise _refused("data interval", f"run {run.run_id} has none")
    if action is not None:
        return action, (action,)
    return ("replay", ("replay", "fill")) if run.clear_number else ("fill", ("fill",))


def _mode(form: Mapping[str, Any], action: str) -> str:
    if form.get("preview"):
        return PREVIEW
    return APPROVE if form.get("approval") and action != "skip" else DO


def _bound(form: Mapping[str, Any], side: str) -> Bound | None:
    """Returns one side's bound, a time or offsets per partition, or None. Refuses both together."""
    moment, lines = (
        form.get(f"{side}_time"),
        [line.strip() for line in form.get(f"{side}_offsets") or () if line.strip()],
    )
    if moment and lines:
        raise _refused(f"{side}_time, {side}_offsets", "give one of them")
    text, field = (moment, f"{side}_time") if moment else (",".join(lines), f"{side}_offsets")
    if not text:
        return None
    try:
        found = parse_bound(text, field)
    except Refusal as refusal:
        raise BadDefinition(refusal.message) from None
    if isinstance(found, AtTime) != bool(moment):
        raise _refused(
            field, f"{text!r} is not what belongs there: {'a time' if moment else 'PARTITION:OFFSET, a line each'}"
        )
    return found


def _refuse_contradictions(asked: Asking) -> None:
    begin, end = asked.begin, asked.end
    if not asked.lanes and asked.reason is None:
        raise _refused("reason", f"{asked.action} is a decision: say why, the ledger keeps it")
    if not asked.lanes and asked.partition is not None:
        raise _refused("partition", f"of {asked.action} the offsets name the partitions")
    if asked.action == "accept-loss":
        lost_offsets(asked)
    if asked.action == "skip" and begin is not None:
        raise _refused("from_time, from_offsets", "a skip begins at the position; say until where")
    if asked.action == "skip" and asked.mode == PREVIEW:
        raise _refused("preview", "a skip changes no row: `lockstep status` shows the positions")
    if asked.action == "replay" and begin is None and end is None and asked.partition is None:
        raise _refused("from_time, from_offsets", "what is to be replayed? Give a bound or a partition")
    if isinstance(begin, AtTime) and isinstance(end, AtTime) and begin.moment >= end.moment:
        raise _refused("until_time", f"{end.moment.isoformat()} is not after from_time {begin.moment.isoformat()}")


def _refused(field: str, why: str) -> BadDefinition:
    return BadDefinition(f"{field}: {why}")
