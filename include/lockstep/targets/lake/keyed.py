"""Publishes into a copy of a keyed lake table's rows, as into a table of the database.

The copy is a temporary table of the session. The lake table gets the rows that it holds afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from psycopg2 import errors, sql

from lockstep.adapters.iceberg.keyed_values import Keys, gather_keys
from lockstep.core.errors import BadData
from lockstep.core.lake.iceberg import LakeCopy
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import each_name, table_name
from lockstep.ledger.rows import one
from lockstep.targets.lake.copy import fill_copy
from lockstep.targets.lake.spool import SPOOLED_ROWS, as_batch, columns_as_held, held_by_lake
from lockstep.targets.rows import staged_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.pipeline.targets import Upsert
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.targets.lake", "keyed")


def staged_keys(cur: cursor, attempt: AttemptId, place: int, target: Upsert, schema: pa.Schema) -> Keys:
    """Returns the keys of the winners' staged rows, in the types of the lake table."""
    fields = pa.schema([(name, schema.field(name).type) for name in target.key])
    query = sql.SQL(Q["staged_keys"]).format(
        columns=columns_as_held(fields), rows=staged_rows(attempt, 0, place).source
    )
    return gather_keys(target.key, _fetched(cur, attempt, query, fields))


def on_copy(target: Upsert) -> Upsert:
    """Returns the target as `make_keyed_copy` makes its table."""
    return replace(target, table=LakeCopy(target.table.partition(".")[2]))


def make_keyed_copy(
    cur: cursor, target: Upsert, columns: Sequence[tuple[str, str]], rows: Iterable[pa.RecordBatch]
) -> None:
    """Makes the copy with these rows, until the transaction ends. `target` is that of `on_copy`.

    Raises `BadData` if two of the rows have one key.
    """
    copy = table_name(target.table)
    fill_copy(cur, LakeCopy(target.table.partition(".")[2]), columns, rows)
    try:
        cur.execute(sql.SQL(Q["key_copy"]).format(copy=copy, keys=each_name("{0}", target.key)))
    except errors.UniqueViolation as error:
        raise BadData(
            f"{target.table}: another writer has put a second row of a key there: {error.diag.message_detail}",
            next_command=f"delete one of both rows of {target.table}, in Spark or Trino",
        ) from None


def rows_of_file(path: Path) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a local file, some at a time."""
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(SPOOLED_ROWS)


def state_of_copy(cur: cursor, copy: str) -> str:
    """Tells all rows of the copy by one text."""
    cur.execute(sql.SQL(Q["state"]).format(copy=table_name(copy)))
    return str(one(cur).state)


def rows_of_copy(cur: cursor, attempt: AttemptId, target: Upsert, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the copy in the types of the lake table. Raises `BadData` for a value that these do not hold."""
    parts = {
        "copy": table_name(target.table),
        "columns": columns_as_held(schema),
        "keys": each_name("t.{0}", target.key),
    }
    return _fetched(cur, attempt, sql.SQL(Q["rows_of_copy"]).format(**parts), schema)


def _fetched(cur: cursor, attempt: AttemptId, query: Composable, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with cur.connection.cursor(name="taking") as taking:
        taking.itersize = SPOOLED_ROWS
        taking.execute(query)
        while some := _some(taking, attempt):
            yield as_batch(attempt, some, schema)


def _some(taking: cursor, attempt: AttemptId) -> list[tuple[Any, ...]]:
    with held_by_lake(attempt):  # the driver has no values of a year behind 9999
        return taking.fetchmany(SPOOLED_ROWS)
