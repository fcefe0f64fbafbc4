"""Forgets a deletion when no record can be read again that the deletion keeps out."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.planning.deletions import forgettable_below
from lockstep.ledger.admin import upkeep as ledger
from lockstep.ledger.batch.archived import note_upkept
from lockstep.ledger.batch.plan import lock_pipeline
from lockstep.steps.upkeep.busy import left_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg2.extensions import connection

    from lockstep.core.offsets import TopicView

FORGOTTEN_PER_TRANSACTION = 1_000  # deletions of one transaction, which holds the pipeline's lock
PORTIONS = 20  # transactions per stream and run
DELETIONS_LOCK_SECONDS = 2


def forget_deletions(
    conn: connection,
    view: Callable[[str], TopicView],
    *,
    most: int = FORGOTTEN_PER_TRANSACTION,
    portions: int = PORTIONS,
) -> tuple[int, list[str]]:
    """Forgets deletions below log start, of every pipeline.

    Returns their number, and the topics and pipelines left out with the reason. Best effort: a topic that does not
    answer and a pipeline that is busy are left for the next time.
    """
    with transaction(conn, READER) as cur:
        buried = ledger.buried(cur)
    gone = 0
    left: list[str] = []
    for topic, each in groupby(buried, key=lambda row: row.topic):
        try:
            seen = view(topic)  # before any transaction, never inside (T6)
        except Refusal as refusal:
            left.append(f"{topic}: {refusal.message}")
            continue
        for row in each:
            with left_out(f"{row.topic}-{row.partition}", left):
                gone += _forget(conn, row, seen, most, portions)
    return gone, left


def _forget(conn: connection, row: Any, view: TopicView, most: int, portions: int) -> int:
    """Forgets portion by portion, each in its own transaction under the pipeline's lock. Returns their number."""
    gone = 0
    for _ in range(portions):
        with transaction(conn, PLANNER, lock_seconds=DELETIONS_LOCK_SECONDS) as cur:
            lock_pipeline(cur, row.pipeline, even_forgotten=True)
            streams = ledger.streams_with_logs(cur, row.pipeline)
            stream = next(each for each in streams if each.stream_id == row.stream_id)
            below = forgettable_below(stream, streams, view)
            if below:
                log_starts = {p: bounds.log_start for p, bounds in view.bounds.items()}
                note_upkept(cur, row.pipeline, (view.cluster_id, view.topic_id), log_starts)
            portion = ledger.forget_deletions_below(cur, stream, row.pipeline, below, most) if below else 0
        gone += portion
        if portion < most:
            break
    return gone
