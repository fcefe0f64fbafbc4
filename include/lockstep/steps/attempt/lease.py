"""Renews the lease of an attempt every few seconds, and notices when another attempt has taken the batch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from lockstep.adapters.postgres import STAGER, connect, transaction
from lockstep.adapters.postgres_errors import best_effort
from lockstep.core.errors import LockTimeout, Refusal
from lockstep.ledger.batch import attempts

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg2.extensions import connection

    from lockstep.core.staging import AttemptId

SECONDS_BETWEEN_RENEWALS = 5.0


class Lease:
    """The lease of an attempt. A thread renews it while the block runs. A block that fails frees it.

    When a newer attempt has taken the batch, `on_lost` is called once. It must stop everything that the block waits
    for. With `hands_over` the batch stays held after the block, for the process that does the next step.
    """

    def __init__(
        self, dsn: str, attempt: AttemptId, on_lost: Callable[[], None] | None = None, *, hands_over: bool = False
    ) -> None:
        self._dsn = dsn
        self._attempt = attempt
        self._on_lost = on_lost
        self._hands_over = hands_over
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease-{attempt.batch_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if kind is None and not self._hands_over:
            return
        with best_effort():
            conn = self._connected()
            with transaction(conn, STAGER) as cur:
                (attempts.hand_over_lease if kind is None else attempts.free_lease)(cur, self._attempt)
            conn.close()

    def _connected(self) -> connection:
        """Connects without waiting for a standby, because a block that waits for the thread would wait, too."""
        conn = connect(self._dsn, name="lockstep lease")
        with transaction(conn, None) as cur:
            attempts.session_waits_for_no_standby(cur)
        return conn

    def _keep(self) -> None:
        conn: connection | None = None
        pause = 0.0 if self._hands_over else SECONDS_BETWEEN_RENEWALS  # a long hand-over lease becomes a short one
        while not self._over.wait(pause):
            pause = SECONDS_BETWEEN_RENEWALS
            try:
                conn = self._connected() if conn is None or conn.closed else conn
                with transaction(conn, STAGER) as cur:
                    ours = attempts.renew_lease(cur, self._attempt)
            except LockTimeout:
                continue  # somebody works on the row: waiting for its lock does not mean that the lease is lost
            except Refusal:
                conn = None  # the database is away; the lease runs out by itself if it stays away
                continue
            if not ours:
                if self._on_lost:
                    self._on_lost()
                break
        if conn is not None:
            conn.close()
