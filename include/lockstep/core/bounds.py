"""Where a fill or replay begins and ends, as a person writes it: offsets, a time, or a batch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from lockstep.core.errors import Refusal, quoted

_OFFSETS = re.compile(r"^\d{1,19}:\d{1,19}(,\d{1,19}:\d{1,19})*\Z", re.ASCII)
_BATCH = re.compile(r"^\d{1,19}\Z", re.ASCII)
MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Partition → offset; other partitions are not meant."""

    offsets: dict[int, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record of every partition at or past this moment."""

    moment: datetime


@dataclass(frozen=True, slots=True)
class AtBatch:
    """The beginning of what a batch read where something begins, its end where something ends."""

    batch_id: int


Bound = AtOffsets | AtTime | AtBatch


def parse_bound(text: str, option: str) -> Bound:
    """`0:1200` or `0:1200,1:900`, an ISO 8601 time (UTC where it names no zone), or a batch's number."""
    text = text.strip()
    if _OFFSETS.match(text):
        pairs = [pair.split(":") for pair in text.split(",")]
        offsets = {int(partition): int(offset) for partition, offset in pairs}
        if len(offsets) == len(pairs) and max(offsets.values()) <= MOST:
            return AtOffsets(offsets)
    elif _BATCH.match(text):
        return AtBatch(int(text)) if int(text) <= MOST else _refuse(text, option)
    else:
        try:
            return AtTime(moment_of(text))
        except ValueError:
            return _refuse(text, option)
    return _refuse(text, option)


def moment_of(text: str) -> datetime:
    """Returns an ISO 8601 time in UTC. A time without a zone is taken for UTC. Raises `ValueError`."""
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
