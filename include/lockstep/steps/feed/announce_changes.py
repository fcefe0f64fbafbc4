"""Announces a commit to the feeds of its targets, inside the commit's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.states import Lane
from lockstep.faults import reach
from lockstep.ledger.feed import changes
from lockstep.ledger.feed.sends import require_unsaid_nothing

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline, Target


def open_changes(cur: cursor, pipeline: str, target: Target, batch_id: int, stream_id: int | None = None) -> None:
    """Opens the target's set of changes before its first row is written. Does nothing for a target without a feed."""
    if target.feed is not None:
        changes.open_change_set(cur, pipeline, target.table, batch_id, stream_id)
        reach("changes.opened")


def open_emission(cur: cursor, pipeline: str, target: Target) -> None:
    """Opens the target's set of changes before its first window is shown. Does nothing for a target without a feed."""
    if target.feed is not None:
        changes.open_emission_set(cur, pipeline, target.table)
        reach("changes.opened")


def number_changes(cur: cursor, pipeline: Pipeline, lane: Lane) -> None:
    """Numbers the changes of this transaction. It is the last thing before COMMIT (E12).

    A replay announces its net effect (E11). Does nothing for a pipeline without a feed.
    """
    if all(target.feed is None for target in pipeline.targets):
        return
    if lane == Lane.REPLAY:
        changes.net_changes(cur)
        reach("changes.netted")
        require_unsaid_nothing(cur, pipeline)
    changes.draw_numbers(cur)
    reach("changes.numbered")
