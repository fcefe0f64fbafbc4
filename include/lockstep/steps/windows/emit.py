"""Raises the watermark, and shows the windows that it has passed. Runs behind a commit, and also when there was none."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.topics import ends_of, read_topics
from lockstep.adapters.postgres import COMMITTER, READER, transaction
from lockstep.adapters.postgres_errors import StatementRefused, server_refusals
from lockstep.core.errors import Refusal
from lockstep.core.offsets import TopicPartition
from lockstep.core.states import Lane
from lockstep.faults import reach
from lockstep.ledger.changes import owners
from lockstep.ledger.windows import times
from lockstep.steps.feed.announce_changes import number_changes, open_emission
from lockstep.steps.inspect.committed import changed_since_commit
from lockstep.targets.accumulate import lock_target
from lockstep.targets.windows import has_due, show_due

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView
    from lockstep.core.pipeline.definition import EventTime, Pipeline, Windows

WINDOWS_A_TRANSACTION = 100_000
EMIT_LOCK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Emission:
    """The watermark of a pipeline, and how many windows of each table were shown for the first time."""

    watermark: datetime | None = None
    emitted: Mapping[str, int] = field(default_factory=dict)


def emit(conn: connection, broker: Broker, pipeline: Pipeline) -> Emission:
    """Raises the watermark and shows the windows that it has passed (E7).

    Does nothing without windows, for a paused pipeline, and under a definition that is not the ledger's. Nor does it
    while another pipeline owns a table of it. If the process dies, the next call goes on: due windows are state.
    """
    if not pipeline.windows or pipeline.event_time is None:
        return Emission()
    with transaction(conn, READER) as cur:
        found = times.read_watermark(cur, pipeline.name)
        other = changed_since_commit(cur, pipeline) or owners.conflicts(cur, pipeline)
        if found is None or other or times.rests(cur, pipeline.name):
            return Emission(found and found.watermark, {target.table: 0 for target in pipeline.windows})
        now = times.ledger_clock(cur)
    at_end = _ends(broker, pipeline) if pipeline.event_time.idle is not None else None
    reach("emit.read")
    _raise(conn, pipeline, pipeline.event_time, now, at_end)
    shown = {target.table: _show(conn, pipeline, target) for target in pipeline.windows}
    with transaction(conn, READER) as cur:
        found = times.read_watermark(cur, pipeline.name)
    return Emission(found and found.watermark, shown)


def _ends(broker: Broker, pipeline: Pipeline) -> tuple[LogView, Mapping[TopicPartition, int]]:
    """Asks the broker where each partition ends, with no transaction open (T6)."""
    view = read_topics(broker, pipeline)
    return view, ends_of(broker, view)


def _raise(
    conn: connection,
    pipeline: Pipeline,
    event_time: EventTime,
    now: datetime,
    at_end: tuple[LogView, Mapping[TopicPartition, int]] | None,
) -> None:
    """Raises the watermark. A stream is idle if its position was the log's very end at that time, on the same log (T7)."""
    refused = f"{pipeline.name}: the watermark does not rise: refused"
    with _refused_by(refused, "lockstep doctor"), transaction(conn, COMMITTER, lock_seconds=EMIT_LOCK_SECONDS) as cur:
        streams = times.lock_open_streams(cur, pipeline.name)
        times.open_times(cur, pipeline.name)
        if at_end is not None:
            view, highs = at_end
            idle = [
                row.stream_id
                for row in streams
                for where in (TopicPartition(row.topic, row.partition),)
                if (row.cluster_id, row.topic, row.topic_id) == view.log_of(row.topic)
                and (bounds := view.get(where))
                and row.position == bounds.stable_end == highs.get(where)
            ]
            times.keep_idle(cur, idle, now)
        times.raise_watermark(cur, pipeline.name, event_time)
    reach("emit.raised")


@contextmanager
def _refused_by(what: str, next_command: str) -> Iterator[None]:
    """Turns the database's refusal into one line that begins with `what` and names the constraint."""
    try:
        with server_refusals():
            yield
    except StatementRefused as refused:
        raise Refusal(f"{what}{refused.by_constraint}: {refused.logged}", next_command=next_command) from None


def _show(conn: connection, pipeline: Pipeline, target: Windows) -> int:
    """Shows the due windows of a target, so many a transaction, the oldest first."""
    shown, refused = 0, f"{pipeline.name}: {target.table} refuses windows that are due"
    look = f"lockstep verify {pipeline.name}"
    while True:
        with _refused_by(refused, look), transaction(conn, COMMITTER, lock_seconds=EMIT_LOCK_SECONDS) as cur:
            lock_target(cur, target.table)
            found = 0
            if has_due(cur, pipeline.name, target.table):
                open_emission(cur, pipeline.name, target)
                found = show_due(cur, pipeline.name, target, WINDOWS_A_TRANSACTION)
                reach("emit.written")
                number_changes(cur, pipeline, Lane.LIVE)
                reach("emit.numbered")
        reach("emit.unacknowledged")
        shown += found
        if found < WINDOWS_A_TRANSACTION:
            return shown
