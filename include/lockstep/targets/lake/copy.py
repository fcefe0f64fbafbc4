"""Copies a lake table into the session, so that `verify` looks at it as at a table of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
from psycopg2 import sql

from lockstep.adapters.iceberg.values import value_digests
from lockstep.engine.sinks.session import copy_rows
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name, typed_columns
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pyarrow as pa
    from psycopg2.extensions import cursor

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.lake.files import OffsetSums, Replaced
    from lockstep.core.lake.iceberg import LakeCopy

Q = queries("lockstep.targets.lake", "copy")


def make_copy(
    cur: cursor,
    table: LakeTable,
    copy: LakeCopy,
    within: Sequence[Replaced] | None = None,
    tell: Callable[[pa.RecordBatch], None] = lambda _: None,
    without: Collection[str] = (),
) -> None:
    """Copies the rows that readers of the table see, or those of some offsets. The copy goes with the transaction.

    Shows `tell` the rows on their way. Leaves out the files of `without`.
    """
    columns = table.postgres_columns
    cur.execute(sql.SQL(Q["make_copy"]).format(copy=table_name(copy), columns=typed_columns(columns)))
    for rows in table.read([name for name, _ in columns], within, without):
        tell(rows)
        copy_rows(cur, "pg_temp", str(copy), rows)
    cur.execute(sql.SQL(Q["index_copy"]).format(copy=table_name(copy)))


class ValuesOfBatches:
    """The digests of rows by batch and stream. Each batch has the columns that its digest covers."""

    def __init__(self, columns: Mapping[int, tuple[str, ...]]) -> None:
        self._columns = columns
        self.digests: dict[tuple[int, int], int] = {}

    def take(self, rows: pa.RecordBatch) -> None:
        """Adds rows of these batches, and passes over others."""
        for batch_id in pc.unique(rows.column("_batch")).to_pylist():
            if batch_id not in self._columns:
                continue
            its = rows.filter(pc.equal(rows.column("_batch"), batch_id))
            wanted = [name for name in self._columns[batch_id] if name in rows.schema.names]
            for stream, digest in value_digests(its, wanted).items():
                key = (batch_id, stream)
                self.digests[key] = self.digests.get(key, 0) + digest


def sums_of_copy(cur: cursor, copy: LakeCopy) -> dict[tuple[int, int], OffsetSums]:
    """Returns the sums of the copy's offsets, by batch and stream."""
    cur.execute(sql.SQL(Q["sums"]).format(copy=table_name(copy)))
    return {
        (row.batch_id, row.stream_id): (
            row.rows,
            int(row.total),
            int(row.squares),
            row.first_offset,
            row.last_offset,
        )
        for row in every(cur)
    }
