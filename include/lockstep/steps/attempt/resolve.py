"""Resolves a COMMIT whose acknowledgement was lost. Only the ledger's commit row shows what happened."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, connect, transaction
from lockstep.core.errors import LockTimeout, Superseded, Unreachable
from lockstep.core.states import BatchState
from lockstep.ledger.batch import attempts
from lockstep.ledger.batch import commit as ledger

if TYPE_CHECKING:
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context

RESOLVE_SECONDS = 120.0
SECONDS_BETWEEN_TRIES = 0.5
LEAST_SECONDS = 1.0
RESOLVE_LOCK_SECONDS = 5


def was_committed(at: Context, attempt: AttemptId) -> bool:
    """Returns True if this attempt committed its batch, read under the batch's row lock.

    A database that is away gives no answer. Raises `Superseded` when another attempt committed or the batch was closed.
    Raises `Unreachable` when time is up.
    """
    until = time.monotonic() + RESOLVE_SECONDS
    while True:
        try:
            return _ask(at.dsn, attempt, until - time.monotonic())
        except (LockTimeout, Unreachable) as no_answer:
            if time.monotonic() > until:
                raise Unreachable(f"whether batch {attempt.batch_id} was committed is not known: {no_answer}") from None
            if isinstance(no_answer, LockTimeout):
                with suppress(Unreachable):
                    _end_committer(at.dsn, attempt)
        time.sleep(SECONDS_BETWEEN_TRIES)


def _ask(dsn: str, attempt: AttemptId, seconds: float) -> bool:
    """Asks the ledger once. Its COMMIT waits for a synchronous standby, so no failover can revoke the answer."""
    conn = connect(dsn, name="lockstep resolve")
    # No time-out of the server covers that wait. A cancelled one ends as a warning, which `transaction` refuses.
    patience = threading.Timer(max(seconds, LEAST_SECONDS), conn.cancel)
    patience.daemon = True
    patience.start()
    try:
        with transaction(conn, COMMITTER, lock_seconds=RESOLVE_LOCK_SECONDS) as cur:
            batch = attempts.lock_batch(cur, attempt.batch_id)
            witness = ledger.committed_by(cur, attempt.batch_id)
    finally:
        patience.cancel()
        conn.close()
    if witness is not None and witness.token != attempt.token:
        raise Superseded(f"batch {attempt.batch_id} was committed by attempt {witness.token}, not by {attempt.token}")
    if witness is not None or batch.token == attempt.token:
        attempts.require_same_timeline(attempt, batch.nonce)
    if witness is None and batch.state != BatchState.PLANNED:
        raise Superseded(f"batch {attempt.batch_id} was {batch.state} meanwhile")
    return witness is not None


def _end_committer(dsn: str, attempt: AttemptId) -> None:
    """Ends the recorded committer, as the login. It still holds the lock, though no client listens to it."""
    conn = connect(dsn, name="lockstep resolve")
    try:
        with transaction(conn, COMMITTER) as cur:
            ledger.end_backend(cur, attempt)
    finally:
        conn.close()
