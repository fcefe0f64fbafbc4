"""Passes a range's rows to a table of the task's connection, or keeps them for the commit to copy straight."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.records import RAW_NAMES
from lockstep.engine.sinks.aside import Spool
from lockstep.engine.sinks.copy_binary import copy_binary

if TYPE_CHECKING:
    from lockstep.core.engine import RangeOutcome, RangeSession
    from lockstep.core.proof.accounting import ManifestLine


class RangeRows:
    """The rows of one range, collected before the commit.

    A commit that waited for Kafka would block others.
    """

    def __init__(self, session: RangeSession, stream_id: int, batch_id: int) -> None:
        self._session = session
        self._stream_id = stream_id
        self._batch_id = batch_id
        self._spool = Spool() if session.straight else None
        self._bytes = Spool() if session.keeps_bytes else None

    def take(self, rows: pa.RecordBatch) -> None:
        """Takes more rows, rejects among them, with the columns of a staging table."""
        if self._spool:
            reasons = rows.column("_reason")
            if reasons.null_count == rows.num_rows:
                self._keep(self._spool, rows)
                return
            if reasons.null_count:
                self._keep(self._spool, rows.filter(pc.is_null(reasons)))
            rows = rows.filter(pc.is_valid(reasons))
        for piece in copy_binary(rows):
            self._session.copy(self._stream_id, rows.schema.names, piece)

    def commit(self, line: ManifestLine) -> RangeOutcome:
        """Commits the range with its manifest line, after all rows are taken."""
        with closing(self):
            rows = self._spool.pieces if self._spool else None
            kept = self._bytes.pieces if self._bytes else None
            return self._session.commit(line, rows, kept)

    def close(self) -> None:
        """Deletes the rows that are kept."""
        for spool in filter(None, (self._spool, self._bytes)):
            spool.close()

    def _keep(self, spool: Spool, good: pa.RecordBatch) -> None:
        batch = pa.repeat(pa.scalar(self._batch_id, pa.int64()), good.num_rows)
        for piece in copy_binary(good.append_column("_batch", batch).select(self._session.straight)):
            spool.put(piece)
        if self._bytes is not None:
            for piece in copy_binary(good.select(RAW_NAMES)):
                self._bytes.put(piece)
