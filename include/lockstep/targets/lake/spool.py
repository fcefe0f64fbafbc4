"""Writes staged rows to Parquet files in a local folder, with the field ids of their lake table."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg2 import sql

from lockstep.adapters.iceberg.data_file import CutFiles
from lockstep.core.errors import BadData
from lockstep.core.records import COORDINATES
from lockstep.ledger.lake.moves import Q
from lockstep.ledger.rows import every
from lockstep.targets.rows import staged_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.lake.files import OffsetSums
    from lockstep.core.staging import AttemptId

SPOOLED_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Spooled:
    """The local files of one target, and the offsets of its staged rows by stream, as the database counts them."""

    files: tuple[Path, ...]
    expected: dict[int, OffsetSums]


def spool_rows(
    cur: cursor, attempt: AttemptId, place: int, staged: Collection[str], schema: pa.Schema, folder: Path
) -> Spooled:
    """Writes the winners' rows of the target at this place. `staged` are its columns. Others of the table stay empty.

    Raises `BadData` for a value that the table cannot hold.
    """
    rows = staged_rows(attempt, 0, place).source
    cur.execute(sql.SQL(Q["staged_offsets"]).format(rows=rows))
    expected = {
        row.stream_id: (row.rows, int(row.total), int(row.squares), row.first_offset, row.last_offset)
        for row in every(cur)
    }
    named = [name for name in schema.names if name in {*staged, *COORDINATES}]
    columns = columns_as_held(schema, named)
    files: list[Path] = []

    def open_file(number: int) -> AbstractContextManager[Path]:
        files.append(folder / f"{place}-{number}.parquet")
        return nullcontext(files[-1])

    with (
        held_by_lake(attempt),
        cur.connection.cursor(name="taking") as taking,
        CutFiles(attempt.batch_id, schema, open_file) as cut,
    ):
        taking.itersize = SPOOLED_ROWS
        taking.execute(sql.SQL(Q["open_rows"]).format(columns=columns, rows=rows))
        while some := taking.fetchmany(SPOOLED_ROWS):
            values = dict(zip(named, zip(*some, strict=True), strict=True))
            values["_batch"] = (attempt.batch_id,) * len(some)
            cut.write(_of_values(values, len(some), schema))
    return Spooled(tuple(files), expected)


def columns_as_held(schema: pa.Schema, named: Sequence[str] = ()) -> Composable:
    """Returns columns to select, all of them without `named`. Doubles are widened here: the driver gives a real as 0.1."""
    names = named or schema.names
    wide = {name for name in names if pa.types.is_float64(schema.field(name).type)}
    each = (sql.SQL("t.{}::float8" if name in wide else "t.{}").format(sql.Identifier(name)) for name in names)
    return sql.SQL(", ").join(each)


def as_batch(attempt: AttemptId, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Returns fetched rows in the types of a lake table. Raises `BadData` for a value that they do not hold."""
    with held_by_lake(attempt):
        return _of_values(dict(zip(schema.names, zip(*rows, strict=True), strict=True)), len(rows), schema)


@contextmanager
def held_by_lake(attempt: AttemptId) -> Iterator[None]:
    """Turns a value that no column of the lake holds into `BadData`."""
    try:
        yield
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise BadData(
            f"batch {attempt.batch_id}: a value that no column of the lake holds: {str(error).splitlines()[0]}",
            next_command=f"lockstep batch {attempt.batch_id}",
        ) from None


def _of_values(values: dict[str, tuple[Any, ...]], count: int, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        pa.array([bytes(v) if isinstance(v, memoryview) else v for v in values[field.name]], field.type)
        if field.name in values
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
