"""Records the hours that are complete by now, one after another, each with its proof."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.topics import ends_of
from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.offsets import TopicPartition
from lockstep.core.pipeline.schedule import start_of
from lockstep.core.planning.hours import (
    HOUR,
    Complete,
    HourOffsets,
    Waiting,
    first_hour,
    hours_before,
    hours_over,
    judge_hour,
    offsets_of_hour,
)
from lockstep.ledger.batch.plan import lock_pipeline
from lockstep.ledger.batch.streams import open_streams
from lockstep.ledger.views import hours as ledger
from lockstep.steps.batch import one_log
from lockstep.steps.inspect.archived_records import first_held, read_held
from lockstep.steps.requests.edges import CLOCK_GRACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import Stream
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.planning.decisions import Blocked
    from lockstep.core.planning.hours import Reached

    Places = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class RecordedHours:
    """The hours that were recorded now, and why the next one that is over is not complete, or None."""

    hours: tuple[datetime, ...] = ()
    waiting: Waiting | None = None


class _NotYet(Exception):  # noqa: N818 - it is an answer, not a fault
    """The answer that the next hour waits: the reason, and the command that looks closer or continues."""


def keep_hours(conn: connection, broker: Broker, pipeline: Pipeline, now: datetime) -> RecordedHours:
    """Records the hours that are complete by now, in order, at most `HOURS_PER_LOOK` of them.

    An hour is over when it is over by the caller's clock and by the database's. Per partition, an hour begins at the
    first record at or past its start. It ends before the first record at or past its end. Both are as the log had them
    when the hour was over. A record that comes later with an older timestamp belongs to a later hour.
    """
    with transaction(conn, READER) as cur:
        now = min(now, ledger.clock(cur))  # a time that is looked up too early stays looked up
        last = ledger.complete_through(cur, pipeline.name)
        start = start_of(pipeline.start)
        begin = ledger.begun(cur, pipeline.name, start if isinstance(start, datetime) else None)
        streams, logs = ledger.reached(cur, pipeline.name)
        opened = open_streams(cur, pipeline.name)
    if begin is None:
        return RecordedHours()
    after = last or first_hour(begin, now)
    kept: list[datetime] = []
    over = hours_over(after, now, CLOCK_GRACE)
    if not over:
        return RecordedHours()
    look = _Look(conn, broker, pipeline, now)  # asked after the positions, as T6 wants it
    for until in over:
        try:
            look.require_the_same_log(streams, logs)
            look.require_one_log(opened)
            answer = _one(look, until, streams, is_first=last is None and until == after + HOUR)
        except _NotYet as reason:
            return RecordedHours(tuple(kept), Waiting(until, *reason.args))
        if isinstance(answer, Waiting):
            return RecordedHours(tuple(kept), answer)
        if answer is not None:
            kept.append(until)
            at = {part.stream_id: part.until_offset for part in answer.offsets}
            streams = tuple(replace(each, offset=at.get(each.stream_id, each.offset)) for each in streams)
    return RecordedHours(tuple(kept))


def told_from(conn: connection, pipeline: Pipeline, now: datetime) -> datetime | None:
    """Returns the beginning of the first hour that is recorded, now or later. None before the first plan."""
    start = start_of(pipeline.start)
    with transaction(conn, READER) as cur:
        known = ledger.complete_from(cur, pipeline.name)
        begin = ledger.begun(cur, pipeline.name, start if isinstance(start, datetime) else None)
    return known or (first_hour(begin, now) if begin else None)


def judge_hours(
    conn: connection, broker: Broker, pipeline: Pipeline, since: datetime, now: datetime
) -> list[Complete | Waiting]:
    """Judges the hours from `since` up to the first that is recorded, and records none of them.

    An hour needs all of its records, also those before the pipeline's start. It is not complete if
    records of it may have been deleted.
    """
    begin = told_from(conn, pipeline, now)
    ends = hours_before(since, begin) if begin else ()
    with transaction(conn, READER) as cur:
        reached, logs = ledger.reached(cur, pipeline.name)
        opened, retired = open_streams(cur, pipeline.name), ledger.has_retired_streams(cur, pipeline.name)
    if not ends:
        return []
    if retired:
        raise Refusal(
            f"{pipeline.name}: hours before {begin} cannot be told: it has read other logs, or other partitions, then",
            next_command=f"lockstep status {pipeline.name}",
        )
    streams = [replace(each, offset=None) for each in reached]
    look, found = _Look(conn, broker, pipeline, now), []
    try:
        look.require_the_same_log(streams, logs)
        look.require_one_log(opened)
        at = look.boundaries(ends[0] - HOUR, streams)
        for until in ends:
            before, at = at, look.boundaries(until, streams)
            found.append(_earlier(look, until, streams, before, at))
    except _NotYet as reason:
        found.append(Waiting(ends[len(found)], *reason.args))
    return found


def _earlier(
    look: _Look, until: datetime, streams: Sequence[Reached], begin: Places, end: Places
) -> Complete | Waiting:
    name = look.pipeline.name
    for at, bounds in sorted(look.view.partitions.items(), key=lambda each: each[0]):
        if 0 < bounds.whole_from >= begin[at]:
            what = f"{at}: the log now starts at {bounds.log_start}: records of it may be deleted"
            return Waiting(until, what, f"lockstep status {name}")
    offsets = [
        HourOffsets(s.stream_id, at, begin[at], max(begin[at], end[at])) for s in streams for at in (s.topic_partition,)
    ]
    with transaction(look.conn, READER) as cur:
        return judge_hour(name, until, streams, offsets, ledger.covered(cur, offsets), named=look.named)


def _one(look: _Look, until: datetime, seen: Sequence[Reached], *, is_first: bool) -> Complete | Waiting | None:
    """Records one hour. Returns None if another caller has recorded it, or opened other streams, meanwhile."""
    name = look.pipeline.name
    begin = look.boundaries(until - HOUR, seen) if is_first else {}
    end = look.boundaries(until, seen)
    with transaction(look.conn, PLANNER) as cur:
        lock_pipeline(cur, name)
        last = ledger.complete_through(cur, name)
        streams, _ = ledger.reached(cur, name)
        if last != (None if is_first else until - HOUR) or _read_on(streams) != _read_on(seen):
            return None
        offsets = offsets_of_hour(streams, begin, end)
        answer = judge_hour(name, until, streams, offsets, ledger.covered(cur, offsets), named=look.named)
        if isinstance(answer, Complete):
            ledger.insert_hour(cur, name, answer)
    return answer


class _Look:
    """One reading of the logs, and the offsets at which past times begin in them."""

    def __init__(self, conn: connection, broker: Broker, pipeline: Pipeline, now: datetime) -> None:
        self.conn, self.broker, self.pipeline, self.now = conn, broker, pipeline, now
        self.view = read_held(conn, broker, pipeline)
        self.named = not isinstance(pipeline.topic, str)
        self._high: dict[TopicPartition, int] | None = None
        self._broken: tuple[Blocked | None] | None = None

    def require_the_same_log(self, streams: Sequence[Reached], logs: set[tuple[str, str, str]]) -> None:
        """Requires that these are the logs that were read, and that every partition of them has a stream."""
        there = {s.topic_partition: s for s in streams if not s.ends}
        name, known = self.pipeline.name, {topic for _, topic, _ in logs if self.named}
        for topic in sorted(known - {view.topic for view in self.view.topics}):
            raise _NotYet(
                f"{topic}: the topic is gone, or is not named any more",
                f"lockstep retire {name} --topic {topic} --reason ...",
            )
        for view in self.view.topics:
            ends = {TopicPartition(view.topic, p): bounds.stable_end for p, bounds in view.bounds.items()}
            own = {at: stream for at, stream in there.items() if at.topic == view.topic}
            same = own.keys() == ends.keys() and (not own or view.log_of(view.topic) in logs)
            if not same or any(ends[at] < stream.position for at, stream in own.items()):
                raise _NotYet(
                    f"{view.topic}: the log is not the one that was read, or has new partitions",
                    f"lockstep plan {name}",
                )

    def require_one_log(self, opened: Sequence[Stream]) -> None:
        """Requires that the log did not lose its end and grow past a position again. Checks once."""
        if self._broken is None:
            self._broken = (
                one_log.look(self.conn, self.broker, opened, self.view).blocked(self.pipeline.name, opened),
            )
        for blocked in filter(None, self._broken):
            raise _NotYet(blocked.reason, blocked.next_command)

    def boundaries(self, at: datetime, streams: Sequence[Reached]) -> dict[TopicPartition, int]:
        """Returns, per partition, the offset at which a time begins, resolved once (T13).

        A record from the future would be the first past every time to come. If the look-up finds only that, the time
        begins at the current stable end. So it does if the offset lies below the end of the hours so far.
        """
        name, ends = self.pipeline.name, {p: bounds.stable_end for p, bounds in self.view.partitions.items()}
        reached: dict[TopicPartition, int] = {}
        for stream in streams:
            p = stream.topic_partition
            if not stream.gone:
                reached[p] = min(stream.offset or 0, reached.get(p, ends[p]))
        with transaction(self.conn, READER) as cur:
            known = ledger.boundaries(cur, name, at)
        missing = {p for p, offset in reached.items() if known.get(p, -1) < offset}
        if not missing:
            return known
        begun = {s.topic_partition: s.start_offset for s in streams if s.renewed and not s.gone}
        seen = first_held(self.conn, self.broker, self.pipeline, self.view, at)
        first = {p: (max(o, begun.get(p, 0)), when) for p, (o, when) in seen.items()}
        self._high = self._high or ends_of(self.broker, self.view)
        astray = {p for p in missing if self._is_astray(*first[p], reached[p])}
        for p in sorted(missing):
            # A record at or past the time, below the stable end, shows that all before it are there.
            if (p in astray or first[p][0] == ends[p]) and self._high[p] > ends[p]:
                what = f"{p}: an open transaction from {ends[p]} on may hold records of it"
                raise _NotYet(what, f"lockstep status {name}")
        found = {p: first[p][0] for p in missing - astray}
        with transaction(self.conn, PLANNER) as cur:
            ledger.keep_boundaries(cur, name, self.view, at, found)
            kept = {p: offset for p, offset in ledger.boundaries(cur, name, at).items() if offset >= reached[p]}
        return found | kept | {p: ends[p] for p in astray}

    def _is_astray(self, offset: int, when: datetime | None, reached: int) -> bool:
        return offset < reached or (when is not None and when > self.now + CLOCK_GRACE)


def _read_on(streams: Iterable[Reached]) -> set[int]:
    return {stream.stream_id for stream in streams if not stream.ends}
