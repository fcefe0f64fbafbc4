"""Writes a data file into the lake: whole and safe under its name, or not there.

Tasks use it, and have no pyiceberg.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lockstep.adapters.iceberg.store import configured_lake, folder_command, lake_place, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.lake.lake_options import LakeOptions


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
            self._writer = pq.ParquetWriter(self._out, schema, compression="zstd")

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows, with exactly the file's schema."""
        with self._taken():
            self._writer.write_batch(rows)
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
