"""Writes a data file into the lake: whole and safe under its name, or not there. Cuts rows into several files, too.

Tasks use it, and have no pyiceberg.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockstep.adapters.iceberg.store import configured_lake, folder_command, lake_place, told
from lockstep.core.errors import BadData
from lockstep.core.lake.files import ROWS_PER_FILE
from lockstep.core.records import COORDINATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from lockstep.core.lake.lake_options import LakeOptions

GROUP_ROWS, GROUP_BYTES = 100_000, 32 * 2**20


class DataFile:
    """A Parquet file on its way. Its folder is there already, or the lake is not this machine's.

    `options` are those of an object store. Raises `ConnectionError` if the store does not take the file.
    """

    def __init__(self, address: str, schema: pa.Schema, options: LakeOptions | None = None) -> None:
        self.address = address
        self.rows = 0
        self._options = options
        self.place = lake_place(address, options)
        local = self.place.local
        if local is not None and not local.parent.is_dir():
            raise ConnectionError(
                f"{local.parent} is not there on {socket.gethostname()}: mount the lake's folder on each machine of Spark"
            )
        with self._taken():
            self._out = self.place.fs.open_output_stream(self.place.unfinished.path)
            self._writer = RowGroups(self._out, schema)

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows, with exactly the file's schema."""
        with self._taken():
            self._writer.write(rows)
        self.rows += rows.num_rows

    def close(self) -> None:
        """Gives the store the whole file, and a folder's disk before the file has its name."""
        with self._taken():
            self._writer.close()
            self._out.close()
            self.place.finish()

    def discard(self) -> None:
        """Takes an unfinished file away, as far as the store lets it. The sweep does the rest."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        with suppress(OSError, pa.ArrowException):
            self._out.close()
        with suppress(OSError):
            self.place.unfinished.delete()

    @contextmanager
    def _taken(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            answer = told(self.address, error, self._options)
            why = answer.why if answer else (self._options or configured_lake()).hidden(str(error))
            command = answer.next_command if answer else folder_command(error)
            raise ConnectionError(f"{self.address}: {why}  Next: {command}") from None


class RowGroups:
    """Writes Parquet in groups of many rows, but of few bytes: readers take large groups faster, and they are smaller."""

    def __init__(self, sink: Any, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(sink, schema, compression="zstd")
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows, with exactly the file's schema."""
        self._held.append(rows)
        self._rows, self._bytes = self._rows + rows.num_rows, self._bytes + rows.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._end_group()

    def close(self) -> None:
        """Writes the last group, and the footer."""
        if self._held:
            self._end_group()
        self._writer.close()

    def _end_group(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._held))
        self._held, self._rows, self._bytes = [], 0, 0


class CutFiles:
    """Cuts rows that come in the order of their keys into files of a limited number of rows.

    `open_file` opens the file with a number, where Parquet is written to. Raises `BadData` if two rows have one key,
    because no index of a lake table refuses it.
    """

    def __init__(
        self, batch_id: int, schema: pa.Schema, open_file: Callable[[int], AbstractContextManager[Any]]
    ) -> None:
        self.count = 0
        self._batch_id, self._schema, self._open_file = batch_id, schema, open_file
        self._open = ExitStack()
        self._held = 0
        self._last = np.zeros((len(COORDINATES), 0), np.int64)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows, with exactly the schema of the files."""
        self._require_new_keys(rows)
        if not self.count or self._held >= ROWS_PER_FILE:
            self._open.close()
            sink = self._open.enter_context(self._open_file(self.count))
            self._writer = self._open.enter_context(closing(RowGroups(sink, self._schema)))
            self._held, self.count = 0, self.count + 1
        self._writer.write(rows)
        self._held += rows.num_rows

    def _require_new_keys(self, rows: pa.RecordBatch) -> None:
        """Compares each key with the one before it, also with the last one of the rows before."""
        columns = [pc.cast(rows.column(name), pa.int64()).to_numpy(zero_copy_only=False) for name in COORDINATES]
        keys = np.concatenate([self._last, np.stack(columns)], axis=1)
        same = (keys[:, 1:] == keys[:, :-1]).all(axis=0)
        if same.any():
            stream, offset, ordinal = keys[:, int(np.argmax(same))]
            raise BadData(
                f"batch {self._batch_id}: stream {stream} offset {offset} has two rows with _ordinal {ordinal}",
                next_command=f"lockstep batch {self._batch_id}",
            )
        self._last = keys[:, -1:]
