"""Keeps what the engine says of its own work at an attempt. If that fails, nothing else does."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import STAGER, transaction
from lockstep.ledger.batch import spark_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.engine import Engine
    from lockstep.core.staging import StageWork
    from lockstep.steps.context import Context

MEASURE_LOCK_SECONDS = 0.2


@contextmanager
def measured(at: Context, engine: Engine, work: StageWork) -> Iterator[None]:
    """Keeps the engine's figures after the block, also after one that fails. An interrupt is not kept waiting."""
    try:
        yield
    except Exception:
        keep_figures(at, engine, work)
        raise
    keep_figures(at, engine, work)


def keep_figures(at: Context, engine: Engine, work: StageWork) -> None:
    """Keeps the figures of this work, in a transaction of their own. Does nothing if the engine has none."""
    try:
        if (figures := engine.figures(work)) is None:
            return
        with transaction(at.conn, STAGER, lock_seconds=MEASURE_LOCK_SECONDS) as cur:
            spark_runs.insert(cur, work.attempt, figures)
    except Exception:  # noqa: BLE001 - whatever Spark or the ledger answers here, the batch goes on
        return
