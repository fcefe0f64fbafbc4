"""What a run of a pipeline's history is asked for: its form, or its data interval, become a lane or a decision with bounds."""

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
    """What Airflow tells of a run; `params` are the form's fields, `interval` is None where Airflow has given it none."""

    run_id: str
    run_type: str
    clear_number: int
    interval: tuple[datetime, datetime] | None
    params: Mapping[str, Any]

    @property
    def is_about_its_interval(self) -> bool:
        """Whether its bounds are its interval: a backfill's are, and those of a scheduled run that somebody has cleared."""
        return self.run_type == "backfill" or (self.run_type == "scheduled" and self.clear_number > 0)

    @property
    def asks(self) -> bool:
        """Whether it is to do anything: the runs of the schedule hold the intervals and do nothing by themselves."""
        return self.run_type != "scheduled" or self.clear_number > 0

    @property
    def key(self) -> str:
        """What its requests are known by: the same for all tries of its tasks, another one once the run is cleared (T9)."""
        return f"{self.run_id} cleared {self.clear_number}" if self.clear_number else self.run_id

    def has_key(self, key: str) -> bool:
        """Returns True if this is the run's key, now or before it was cleared."""
        return key in {self.run_id, *(f"{self.run_id} cleared {n}" for n in range(1, self.clear_number + 1))}


@dataclass(frozen=True, slots=True)
class Asking:
    """What is to be done: requests in these lanes, in this order, or with none the decision that `action` names.

    `mode` is `do`, `preview` (show it, and stop) or `approve` (show it, and go on when somebody has approved).
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
    """What Spark's half of a run came to: `done`, `waits` for somebody else, `blocked` until a person decides, or `refused`.

    `reason` is of a refusal the line by which an error names itself.
    """

    state: str
    reason: str
    next_command: str | None = None


def asking(run: HistoryRun) -> Asking:
    """The form and the interval, put together; `BadDefinition` names the field that contradicts another."""
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
    """Refuses what replaces or gives up records without approval, where the pipeline names approvers."""
    if approvers and asked.mode == DO and ("replay" in asked.lanes or asked.action == "accept-loss"):
        raise _refused("approval", f"{asked.action} waits for one of {', '.join(approvers)}: tick the box")


def waits_until(asked: Asking, run: HistoryRun, now: datetime, grace: timedelta) -> datetime | None:
    """When the latest of its times is closed, if it is not yet: before, records of it may still come (T13).

    A time of the form that has not come at all is refused; an interval is waited for.
    """
    moments = [bound.moment for bound in (asked.begin, asked.end) if isinstance(bound, AtTime)]
    if not moments or (latest := max(moments)) + grace <= now:
        return None
    if latest > now and not run.is_about_its_interval:
        field = "until_time" if isinstance(asked.end, AtTime) and asked.end.moment == latest else "from_time"
        raise _refused(field, f"{latest.isoformat()} has not come yet; it is {now.isoformat(timespec='seconds')}")
    return latest + grace


def lost_offsets(asked: Asking) -> dict[int, tuple[int, int]]:
    """Partition → [from, until) that are to be accepted as lost."""
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
    """A first time fills; a run that was cleared replays what is covered and fills the rest, unless the form says which."""
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
    """One side's bound: a time or offsets per partition, not both."""
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
