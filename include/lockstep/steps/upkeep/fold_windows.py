"""Folds what segments below log start add to closed windows, so that retention bounds the number of contributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.faults import reach
from lockstep.ledger.batch.plan import last_documents, lock_pipeline
from lockstep.steps.upkeep.busy import done_or_left
from lockstep.targets.folding import BEFORE_ALL_KEYS, fold_portion, pipelines_with_windows
from lockstep.targets.table.fit import types_of_target

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.core.pipeline.targets import Windows

FOLDED_PER_TRANSACTION = 5_000  # windows of one transaction, which holds the pipeline's lock
FOLD_LOCK_SECONDS = 2


def fold_windows(conn: connection, *, most: int = FOLDED_PER_TRANSACTION) -> tuple[int, list[str]]:
    """Folds contributions of every pipeline with windows. Returns their number, and the pipelines left out with the reason."""
    with transaction(conn, READER) as cur:
        names = pipelines_with_windows(cur)
    return done_or_left(names, "windows", lambda name: _fold(conn, name, most))


def _fold(conn: connection, name: str, most: int) -> int:
    """Folds the windows of a pipeline as its last committed definition has them."""
    with transaction(conn, READER) as cur:
        documents = last_documents(cur, name, None)
        targets = pipeline_of_document(documents[0]).windows if documents else ()
        there = [target for target in targets if types_of_target(cur, target.table)]
    return sum(_fold_target(conn, name, target, most) for target in there)


def _fold_target(conn: connection, name: str, target: Windows, most: int) -> int:
    """Folds portion by portion, each in a transaction of its own. Returns the number of contributions less."""
    folded, behind = 0, BEFORE_ALL_KEYS
    while True:
        with transaction(conn, PLANNER, lock_seconds=FOLD_LOCK_SECONDS) as cur:
            lock_pipeline(cur, name, even_forgotten=True)
            portion = fold_portion(cur, name, target, behind, most)
            reach("upkeep.folded")
        if portion.last_key is None:
            return folded
        folded, behind = folded + portion.contributions, portion.last_key
