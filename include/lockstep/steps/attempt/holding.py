"""Holds an attempt of a pipeline's own while a step works on it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockstep.steps.attempt.failure import TRY_AGAIN, failure_recorded
from lockstep.steps.attempt.lease import Lease
from lockstep.steps.attempt.opening import require_own_attempt
from lockstep.steps.attempt.refused_record import refused_record_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context


@contextmanager
def holding_attempt(at: Context, pipeline: Pipeline, attempt: AttemptId, *, hands_over: bool = False) -> Iterator[None]:
    """Renews the attempt's lease during the block, and closes the attempt as failed when the block raises.

    A refusal by a target then names its first record. Raises `Superseded` for another pipeline's attempt, before
    anything of it is changed.
    """
    require_own_attempt(at.conn, attempt, pipeline.name)
    with (
        Lease(at.dsn, attempt, hands_over=hands_over),
        failure_recorded(at, attempt, but=TRY_AGAIN),
        refused_record_named(at.conn, pipeline, attempt),
    ):
        yield
