"""Copies a lake table into the session, so that `verify` looks at it as at a table of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg2
import pyarrow.compute as pc
from psycopg2 import sql

from lockstep.adapters.iceberg.values import value_digests
from lockstep.adapters.postgres_words import first_line
from lockstep.core.errors import BadData
from lockstep.engine.sinks.session import copy_rows
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name, typed_columns
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa
    from psycopg2.extensions import cursor

    from lockstep.core.lake.files import OffsetSums
    from lockstep.core.lake.iceberg import LakeCopy

Q = queries("lockstep.targets.lake", "copy")


def make_copy(
    cur: cursor,
    copy: LakeCopy,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[pa.RecordBatch],
    tell: Callable[[pa.RecordBatch], None] = lambda _: None,
) -> None:
    """Copies rows of a lake table, whose columns have these types. The copy goes with the transaction.

    Shows `tell` the rows on their way. Raises as `fill_copy` does.
    """
    fill_copy(cur, copy, columns, rows, tell)
    cur.execute(sql.SQL(Q["index_copy"]).format(copy=table_name(copy)))


def fill_copy(
    cur: cursor,
    copy: LakeCopy,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[pa.RecordBatch],
    tell: Callable[[pa.RecordBatch], None] = lambda _: None,
) -> None:
    """Does the same, and makes no index. Raises `BadData` for a value that the database does not hold.

    No batch has brought such a value.
    """
    cur.execute(sql.SQL(Q["make_copy"]).format(copy=table_name(copy), columns=typed_columns(columns)))
    for some in rows:
        tell(some)
        try:
            copy_rows(cur, "pg_temp", copy.relation, some)
        except psycopg2.DataError as error:
            where = (error.diag.context or "a column").rpartition(", ")[2]
            raise BadData(
                f"{copy}: another writer has put a value there that the database does not hold: {where}: "
                f"{first_line(error)}",
                next_command=f"correct or delete that row of {copy}, in Spark or Trino",
            ) from None


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
