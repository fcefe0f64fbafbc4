"""Records the hours that are complete by now, one after another, each with its proof."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.definition import start_of
from lockstep.core.hours import HOUR, Complete, Waiting, first_hour, hours_over, judge, offsets_of_hour
from lockstep.ledger import hours as ledger
from lockstep.ledger.plan import lock_pipeline, open_streams
from lockstep.steps import one_log
from lockstep.steps.edges import GRACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka import Broker
    from lockstep.core.decisions import Blocked
    from lockstep.core.definition import Pipeline
    from lockstep.core.hours import Reached
    from lockstep.core.offsets import Stream


@dataclass(frozen=True, slots=True)
class Found:
    """The hours that were recorded now, and why the next one that is over is not complete.

    The reason is None if all of them are.
    """

    hours: tuple[datetime, ...] = ()
    waiting: Waiting | None = None


class _NotYet(Exception):  # noqa: N818 - it is an answer, not a fault
    """The answer that the next hour waits: the reason, and the command that looks closer or continues."""


def keep_hours(conn: connection, broker: Broker, pipeline: Pipeline, now: datetime) -> Found:
    """Records the hours that are complete by now, in order, at most `core.hours.MOST` of them.

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
        return Found()
    after = last or first_hour(begin, now)
    kept: list[datetime] = []
    over = hours_over(after, now, GRACE)
    if not over:
        return Found()
    look = _Look(conn, broker, pipeline, now)  # asked after the positions, as T6 wants it
    for until in over:
        try:
            look.require_the_same_log(streams, logs)
            look.require_one_log(opened)
            answer = _one(look, until, streams, is_first=last is None and until == after + HOUR)
        except _NotYet as reason:
            return Found(tuple(kept), Waiting(until, *reason.args))
        if isinstance(answer, Waiting):
            return Found(tuple(kept), answer)
        if answer is not None:
            kept.append(until)
            at = {part.stream_id: part.until_offset for part in answer.offsets}
            streams = tuple(replace(each, offset=at.get(each.stream_id, each.offset)) for each in streams)
    return Found(tuple(kept))


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
        answer = judge(name, until, streams, offsets, ledger.covered(cur, offsets))
        if isinstance(answer, Complete):
            ledger.insert_hour(cur, name, answer)
    return answer


class _Look:
    """One reading of the log, and the offsets at which past times begin in it."""

    def __init__(self, conn: connection, broker: Broker, pipeline: Pipeline, now: datetime) -> None:
        self.conn, self.broker, self.pipeline, self.now = conn, broker, pipeline, now
        self.view = broker.view(pipeline.topic)
        self._high: dict[int, int] | None = None
        self._broken: tuple[Blocked | None] | None = None

    def require_the_same_log(self, streams: Sequence[Reached], logs: set[tuple[str, str]]) -> None:
        """Requires that this is the log that was read, and that every partition of it has a stream."""
        there = {s.topic_partition.partition: s for s in streams if not s.ends}
        ends = {p: bounds.stable_end for p, bounds in self.view.bounds.items()}
        same = logs == {(self.view.cluster_id, self.view.topic_id)} and there.keys() == ends.keys()
        if not same or any(ends[p] < stream.position for p, stream in there.items()):
            raise _NotYet(
                f"{self.view.topic}: the log is not the one that was read, or has new partitions",
                f"lockstep plan {self.pipeline.name}",
            )

    def require_one_log(self, opened: Sequence[Stream]) -> None:
        """Requires that the log did not lose its end and grow past a position again. Checks once."""
        if self._broken is None:
            self._broken = (
                one_log.look(self.conn, self.broker, opened, self.view).blocked(self.pipeline.name, opened),
            )
        for blocked in filter(None, self._broken):
            raise _NotYet(blocked.reason, blocked.next_command)

    def boundaries(self, at: datetime, streams: Sequence[Reached]) -> dict[int, int]:
        """Returns, per partition, the offset at which a time begins, resolved once (T13).

        A record from the future would be the first past every time to come. If the look-up finds only that, the time
        begins at the current stable end. The same holds if the look-up finds an offset below the end of the hours so
        far.
        """
        name, ends = self.pipeline.name, {p: bounds.stable_end for p, bounds in self.view.bounds.items()}
        reached: dict[int, int] = {}
        for stream in streams:
            p = stream.topic_partition.partition
            if not stream.gone:
                reached[p] = min(stream.offset or 0, reached.get(p, ends[p]))
        with transaction(self.conn, READER) as cur:
            known = ledger.boundaries(cur, name, at)
        missing = {p for p, offset in reached.items() if known.get(p, -1) < offset}
        if not missing:
            return known
        begun = {s.topic_partition.partition: s.start_offset for s in streams if s.renewed and not s.gone}
        first = {p: (max(o, begun.get(p, 0)), when) for p, (o, when) in self.broker.first_at(self.view, at).items()}
        self._high = self._high or self.broker.high_ends(self.view)
        astray = {p for p in missing if self._is_astray(*first[p], reached[p])}
        for p in sorted(missing):
            # A record at or past the time, below the stable end, shows that all before it are there.
            if (p in astray or first[p][0] == ends[p]) and self._high[p] > ends[p]:
                what = f"{self.view.topic}-{p}: an open transaction from {ends[p]} on may hold records of it"
                raise _NotYet(what, f"lockstep status {name}")
        found = {p: first[p][0] for p in missing - astray}
        with transaction(self.conn, PLANNER) as cur:
            ledger.keep_boundaries(cur, name, self.view, at, found)
            kept = {p: offset for p, offset in ledger.boundaries(cur, name, at).items() if offset >= reached[p]}
        return found | kept | {p: ends[p] for p in astray}

    def _is_astray(self, offset: int, when: datetime | None, reached: int) -> bool:
        return offset < reached or (when is not None and when > self.now + GRACE)


def _read_on(streams: Iterable[Reached]) -> set[int]:
    return {stream.stream_id for stream in streams if not stream.ends}
