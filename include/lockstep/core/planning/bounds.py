"""Parses the bounds of a fill or replay, as a person writes them: offsets, a time, or a batch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition, Refusal, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockstep.core.offsets import TopicView

_OFFSETS = re.compile(r"^\d{1,19}:\d{1,19}(,\d{1,19}:\d{1,19})*\Z", re.ASCII)
_BATCH = re.compile(r"^\d{1,19}\Z", re.ASCII)
MOST_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """A bound with one offset per partition. It leaves out the other partitions."""

    offsets: dict[int, int]

    def __str__(self) -> str:
        return ",".join(f"{partition}:{offset}" for partition, offset in sorted(self.offsets.items()))


@dataclass(frozen=True, slots=True)
class AtTime:
    """A bound at the first record of every partition at or after this moment."""

    moment: datetime

    def __str__(self) -> str:
        return self.moment.isoformat()


@dataclass(frozen=True, slots=True)
class AtBatch:
    """A bound at a batch's offsets: at their start for a lower bound, at their end for an upper one."""

    batch_id: int

    def __str__(self) -> str:
        return f"batch {self.batch_id}"


Bound = AtOffsets | AtTime | AtBatch


def first_offsets(
    start: datetime | str | AtOffsets, view: TopicView, offsets_at: Callable[[datetime], dict[int, int]], now: datetime
) -> dict[int, int]:
    """Returns, per partition, where a first plan would begin at this start, within the log's bounds."""
    if isinstance(start, AtOffsets):
        wanted = {p: start.offsets.get(p, bounds.stable_end) for p, bounds in view.bounds.items()}
        return {p: min(max(wanted[p], bounds.log_start), bounds.stable_end) for p, bounds in view.bounds.items()}
    if isinstance(start, datetime) and start <= now:
        return offsets_at(start)
    return {p: bounds.log_start if start == "earliest" else bounds.stable_end for p, bounds in view.bounds.items()}


def parse_bound(text: str, option: str) -> Bound:
    """Parses `0:1200` or `0:1200,1:900`, an ISO 8601 time, or the number of a batch.

    Reads a time without a zone as UTC. Raises `Refusal` for any other text.
    """
    text = text.strip()
    if _OFFSETS.match(text):
        pairs = [pair.split(":") for pair in text.split(",")]
        offsets = {int(partition): int(offset) for partition, offset in pairs}
        if len(offsets) == len(pairs) and max(offsets.values()) <= MOST_OFFSET:
            return AtOffsets(offsets)
    elif _BATCH.match(text):
        return AtBatch(int(text)) if int(text) <= MOST_OFFSET else _refuse(text, option)
    else:
        try:
            return AtTime(moment_of(text))
        except ValueError:
            return _refuse(text, option)
    return _refuse(text, option)


def moment_of(text: str) -> datetime:
    """Returns an ISO 8601 time in UTC. Reads a time without a zone as UTC. Raises `ValueError` for any other text."""
    moment = datetime.fromisoformat(text)
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError as error:  # in UTC it lies before the year 1, or past 9999
        raise ValueError(str(error)) from None


def _refuse(text: str, option: str) -> Bound:
    raise Refusal(
        f"{option} {quoted(text)} is no bound: it is PARTITION:OFFSET, such as 0:1200, an ISO 8601 time, or a batch's number",
        next_command="lockstep batches NAME",
    )


def bound_of_form(form: Mapping[str, Any], side: str) -> Bound | None:
    """Returns one side's bound, a time or offsets per partition, or None. Refuses both together."""
    moment, lines = (
        form.get(f"{side}_time"),
        [line.strip() for line in form.get(f"{side}_offsets") or () if line.strip()],
    )
    if moment and lines:
        raise BadDefinition(f"{side}_time, {side}_offsets: give one of them")
    text, field = (moment, f"{side}_time") if moment else (",".join(lines), f"{side}_offsets")
    if not text:
        return None
    try:
        found = parse_bound(text, field)
    except Refusal as refusal:
        raise BadDefinition(refusal.message) from None
    if isinstance(found, AtTime) != bool(moment):
        wanted = "a time" if moment else "PARTITION:OFFSET, a line each"
        raise BadDefinition(f"{field}: {text!r} is not what belongs there: {wanted}")
    return found
