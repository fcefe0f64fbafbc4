"""Counts how far the read of a batch is, without asking the processes that read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.planning.activity import Advance
from lockstep.ledger.batch.commit import committed_ranges
from lockstep.ledger.views import reading

if TYPE_CHECKING:
    from psycopg2.extensions import connection


class Counter:
    """Looks at the sessions that stage a batch, and at ranges that are committed, on a connection of its own.

    `counts_records` is False if a transform makes the rows. The number of rows then says nothing about the rest.
    """

    def __init__(self, dsn: str, *, counts_records: bool) -> None:
        self._dsn = dsn
        self._counts_records = counts_records
        self._conn: connection | None = None
        self._batch_id: int | None = None
        self._copied: dict[object, int] = {}

    def look(self, batch_id: int) -> Advance:
        """Returns how far the read is. A session that has ended since the last look keeps its last count."""
        if batch_id != self._batch_id:
            self._batch_id, self._copied = batch_id, {}
        if self._conn is None or self._conn.closed:
            self._conn = connect(self._dsn, name="lockstep progress")
        with transaction(self._conn, READER) as cur:
            ranges = committed_ranges(cur, batch_id)
        with transaction(self._conn, None) as cur:  # only the login itself sees what its sessions do
            for row in reading.sessions_staging(cur, batch_id):
                key = row.pid, row.backend_start
                self._copied[key] = max(row.rows, self._copied.get(key, 0))
        committed = sum(row.delivered or 0 for row in ranges)
        read = max(committed, sum(self._copied.values()))
        of = sum(row.until_offset - row.from_offset for row in ranges)
        return Advance(min(read, of), of) if self._counts_records else Advance(read, None)

    def close(self) -> None:
        """Closes the connection."""
        if self._conn is not None:
            self._conn.close()
