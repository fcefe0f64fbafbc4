"""Writes and reads Parquet: staged rows as columns of exact types, with batch and attempt in the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from psycopg2 import sql

from lockstep.core.errors import BadData, Refusal
from lockstep.core.records import COORDINATE_COLUMNS
from lockstep.ledger.batch.delivery import Q
from lockstep.targets.rows import staged_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from psycopg2.extensions import cursor

    from lockstep.targets.stores.delivery import Delivery

BATCH_KEY, TOKEN_KEY = b"lockstep.batch", b"lockstep.attempt"
ROWS_PER_READ = 10_000
TYPES = {
    "text": pa.string(),
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "date": pa.date32(),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "bytea": pa.binary(),
}
_NUMERIC = re.compile(r"^numeric\((\d+),(\d+)\)$")


def spooled(stream: int) -> str:
    """Returns the name of a stream's file in the spool."""
    return f"{stream}.parquet"


def write_parquet(cur: cursor, delivery: Delivery) -> None:
    """Writes one file per range, even without rows. The fact that there were none is a result, too."""
    named = (*((name, type_) for name, type_ in delivery.columns), *COORDINATE_COLUMNS)
    fields = [pa.field(name, _type(type_)) for name, type_ in named]
    origin = {BATCH_KEY: str(delivery.attempt.batch_id), TOKEN_KEY: str(delivery.attempt.token)}
    schema = pa.schema([*fields, pa.field("_batch", pa.int64())], metadata=origin)
    columns = sql.SQL(", ").join(sql.SQL("t.{}").format(sql.Identifier(name)) for name, _ in named)
    rows = staged_rows(delivery.attempt, delivery.count).source
    place = [name for name, _ in named].index("_stream")
    writers = {s: pq.ParquetWriter(delivery.spool / spooled(s), schema) for s, _, _ in delivery.ranges}
    try:
        with cur.connection.cursor(name="taking") as taking:
            taking.itersize = ROWS_PER_READ
            taking.execute(sql.SQL(Q["open_rows"]).format(columns=columns, rows=rows))
            while some := taking.fetchmany(ROWS_PER_READ):
                for stream in dict.fromkeys(row[place] for row in some):
                    of_stream = [(*row, delivery.attempt.batch_id) for row in some if row[place] == stream]
                    writers[stream].write_batch(_batch(of_stream, schema))
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise BadData(
            f"{delivery.pipeline.name}: batch {delivery.attempt.batch_id}: a value that no Parquet file holds: {error}",
            next_command=f"lockstep batch {delivery.attempt.batch_id}",
        ) from None
    finally:
        for writer in writers.values():
            writer.close()


def origin(path: Path) -> tuple[int, int]:
    """Returns the batch and the attempt that wrote the file."""
    metadata = _opened(path).schema_arrow.metadata or {}
    try:
        return int(metadata[BATCH_KEY]), int(metadata[TOKEN_KEY])
    except KeyError:
        raise _foreign(path) from None


def row_offsets(path: Path) -> list[int]:
    """Returns the offset of every row, in the file's order."""
    found: list[int] = _opened(path).read(columns=["_offset"]).column("_offset").to_pylist()
    return found


def rows_of_offset(path: Path, offset: int) -> list[dict[str, Any]]:
    """Returns the rows of one record."""
    rows: list[dict[str, Any]] = pq.read_table(path, filters=[("_offset", "=", offset)]).to_pylist()
    return rows


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array([bytes(v) if isinstance(v, memoryview) else v for v in values], field.type)
        for values, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _type(postgres: str) -> pa.DataType:
    numeric = _NUMERIC.match(postgres)
    return pa.decimal128(int(numeric[1]), int(numeric[2])) if numeric else TYPES[postgres]


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException):
        raise _foreign(path) from None


def _foreign(path: Path) -> Refusal:
    return Refusal(f"{path} was not written by lockstep", next_command=f"move it out of {path.parent}")
