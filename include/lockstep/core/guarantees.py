"""Guarantees: in which order results and offsets move, and what a crash between them can cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PerBatch:
    """Transactional per batch: results and offsets of the whole batch move in one Postgres transaction."""


@dataclass(frozen=True, slots=True)
class PerPartition:
    """Transactional per partition: each task commits the rows and the offsets of each range it reads in one transaction.

    Nothing is staged, and readers see a batch come stream by stream. Takes `Append` or `Upsert`, no transform that shuffles
    and no suite of expectations, for no task ever sees the whole batch.
    """


Guarantee = PerBatch | PerPartition

NO_SUITE = (
    "a suite is judged on the staged rows of a whole batch, and under guarantee PerPartition none are staged: "
    "refuse rows in transform.py or by constraints in target.sql, or take PerBatch"
)
WHOLE_BATCH, EACH_STREAM = "batch", "stream"


def commit_unit(guarantee: Guarantee) -> str:
    """What one commit moves: the whole batch, or one stream of it."""
    return EACH_STREAM if isinstance(guarantee, PerPartition) else WHOLE_BATCH
