"""Merges hundreds of rows of coverage below the log's start into one, and forgets deletions there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.errors import Refusal
from lockstep.faults import reach
from lockstep.ledger.admin import upkeep as ledger
from lockstep.ledger.batch.archived import note_upkept
from lockstep.ledger.batch.plan import lock_pipeline
from lockstep.ledger.changes.decisions import lock_streams
from lockstep.steps.upkeep.busy import left_out
from lockstep.steps.upkeep.empty_rejects import empty_rejects
from lockstep.steps.upkeep.fold_windows import fold_windows
from lockstep.steps.upkeep.forget_deletions import forget_deletions
from lockstep.steps.upkeep.trim_feeds import trim_feeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg2.extensions import connection

    from lockstep.core.offsets import TopicView

LEAST = 64  # rows of one stream that make a merge worth its while: each one writes the merged row anew
MERGED_PER_TRANSACTION = 1_000  # rows of one transaction, which holds the pipeline's lock
COVERAGE_LOCK_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Upkept:
    """The result of an upkeep: removed rows of coverage, their streams, and what was left, with the reason.

    `forgotten` counts deletions of keys behind which no record can come back. `emptied` counts rejects whose bytes have
    gone. `trimmed` counts changes that feeds keep no longer. `folded` counts contributions that went into others.
    """

    merged: int
    streams: int
    left: tuple[str, ...] = ()
    forgotten: int = 0
    emptied: int = 0
    trimmed: int = 0
    folded: int = 0


def upkeep(
    conn: connection, view: Callable[[str], TopicView], *, least: int = LEAST, most: int = MERGED_PER_TRANSACTION
) -> Upkept:
    """Merges neighbouring segments wholly below log start, of every pipeline. `view` asks a topic's broker.

    Best effort: a topic that does not answer and a pipeline that is busy are left for the next time. Leaves alone the
    claims of batches and the offsets of open requests.
    """
    with transaction(conn, READER) as cur:
        crowded = ledger.crowded(cur, least)
    merged = streams = 0
    left: list[str] = []
    for topic, each in groupby(crowded, key=lambda stream: stream.topic):
        try:
            log_starts = _log_starts(view(topic), list(each))  # before any transaction, never inside (T6)
        except Refusal as refusal:
            left.append(f"{topic}: {refusal.message}")
            continue
        with transaction(conn, READER) as cur:
            due = set(ledger.below_log_start(cur, log_starts, least))
        for stream in (s for s in crowded if s.stream_id in due):
            with left_out(f"{stream.topic}-{stream.partition}", left):
                gone = _merge(conn, stream, log_starts[stream.stream_id], most)
                merged += gone
                streams += gone > 0
    forgotten, not_forgotten = forget_deletions(conn, view)
    emptied, not_emptied = empty_rejects(conn)
    trimmed, not_trimmed = trim_feeds(conn)
    folded, not_folded = fold_windows(conn)
    left = list(dict.fromkeys((*left, *not_forgotten, *not_emptied, *not_trimmed, *not_folded)))
    return Upkept(merged, streams, tuple(left), forgotten, emptied, trimmed, folded)


def _log_starts(view: TopicView, streams: list[Any]) -> dict[int, int]:
    """Returns log starts by stream, of those that are still of this log.

    A log's start only grows, so an older one merges less.
    """
    return {
        s.stream_id: view.bounds[s.partition].log_start
        for s in streams
        if (s.cluster_id, s.topic_id) == (view.cluster_id, view.topic_id) and s.partition in view.bounds
    }


def _merge(conn: connection, stream: Any, log_start: int, most: int) -> int:
    """Merges portion by portion, each in its own transaction under the pipeline's and the stream's lock."""
    less, begin = 0, 0
    while True:
        with transaction(conn, PLANNER, lock_seconds=COVERAGE_LOCK_SECONDS) as cur:
            lock_pipeline(cur, stream.pipeline, even_forgotten=True)
            lock_streams(cur, [stream.stream_id])
            note_upkept(cur, stream.pipeline, (stream.cluster_id, stream.topic_id), {stream.partition: log_start})
            portion = ledger.merge(cur, stream.stream_id, begin, log_start, most)
            reach("upkeep.merged")
        less += int(portion.gone - portion.made)
        if portion.seen < most:
            return less
        begin = portion.last_begin
