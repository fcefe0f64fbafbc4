"""Defines the guarantees: the order in which results and offsets move, and what a crash between them can cost."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.states import CommitUnit


@dataclass(frozen=True, slots=True)
class PerBatch:
    """Transactional per batch: results and offsets of the whole batch move in one Postgres transaction."""


@dataclass(frozen=True, slots=True)
class PerPartition:
    """Transactional per partition: each task commits rows and offsets of each range it reads in one transaction.

    Nothing is staged, and readers see a batch stream by stream. It needs `Append`, `History` or `Upsert`. It allows no
    transform that shuffles and no suite of expectations, because no task ever sees the whole batch.
    """


@dataclass(frozen=True, slots=True)
class Idempotent:
    """Results by natural key, then offsets.

    After a crash between them the results are written again, over themselves.
    """


@dataclass(frozen=True, slots=True)
class AtLeastOnce:
    """Results, then offsets. After a crash between them the results are appended again.

    None is lost, some may be doubled.
    """


@dataclass(frozen=True, slots=True)
class AtMostOnce:
    """Offsets, then results. A crash between them leaves the results out. None is doubled, some may be lost."""


# Results and offsets move one after the other, so the results may live in any store.
Delivered = Idempotent | AtLeastOnce | AtMostOnce
Guarantee = PerBatch | PerPartition | Idempotent | AtLeastOnce | AtMostOnce

NO_SUITE = (
    "a suite is judged on the staged rows of a whole batch, and under guarantee PerPartition none are staged: "
    "refuse rows in transform.py or by constraints in target.sql, or take PerBatch"
)


def commit_unit(guarantee: Guarantee) -> CommitUnit:
    """Returns the unit that one commit moves: the whole batch, or one stream of it."""
    return CommitUnit.STREAM if isinstance(guarantee, PerPartition) else CommitUnit.BATCH
