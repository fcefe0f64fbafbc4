"""Keeps what the engine says of its own work at an attempt. If that fails, nothing else does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import STAGER, transaction
from lockstep.ledger.batch import spark_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from lockstep.core.engine import Engine
    from lockstep.core.figures import Figures
    from lockstep.core.staging import StageWork
    from lockstep.steps.context import Context

MEASURE_LOCK_SECONDS = 0.2


@contextmanager
def measured(at: Context, engine: Engine, work: StageWork) -> Iterator[Callable[[], None]]:
    """Keeps the engine's figures after the block, also after one that fails. An interrupt is not kept waiting.

    Yields a function that asks for them beside the rest of the block. The engine's work must be done by then.
    """
    beside = ThreadPoolExecutor(1, "figures")
    asked: list[Future[Figures | None]] = []

    def ask() -> None:
        asked.append(beside.submit(engine.figures, work))

    def answer() -> Figures | None:
        return asked[0].result() if asked else engine.figures(work)

    try:
        yield ask
    except Exception:
        _keep(at, work, answer)
        raise
    else:
        _keep(at, work, answer)
    finally:
        beside.shutdown(wait=False)


def _keep(at: Context, work: StageWork, answer: Callable[[], Figures | None]) -> None:
    """Keeps the figures of this work, in a transaction of their own. Does nothing if the engine has none."""
    try:
        if (figures := answer()) is None:
            return
        with transaction(at.conn, STAGER, lock_seconds=MEASURE_LOCK_SECONDS) as cur:
            spark_runs.insert(cur, work.attempt, figures)
    except Exception:  # noqa: BLE001 - whatever Spark or the ledger answers here, the batch goes on
        return
