"""Failure: an attempt that cannot go on is closed with its reason, so that history says why and the next run may start."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg2

from lockstep.adapters.postgres import STAGER, transaction
from lockstep.core.errors import BadData, Refusal, Superseded
from lockstep.ledger import attempts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.staging import AttemptId
    from lockstep.steps.surroundings import Surroundings


@contextmanager
def recorded(at: Surroundings, attempt: AttemptId) -> Iterator[None]:
    """Closes the attempt as failed when the block raises; an interrupt leaves it open for the next run to supersede."""
    try:
        yield
    except Superseded:
        raise
    except Exception as error:
        with suppress(Refusal, psycopg2.Error), transaction(at.conn, STAGER) as cur:
            attempts.close_failed(cur, attempt, str(error), by_data=isinstance(error, BadData))
        raise
