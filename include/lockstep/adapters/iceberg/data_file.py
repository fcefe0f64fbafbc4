"""Writes a data file into a lake that is a folder.

It is whole and on disk under its name, or not there.
Tasks use it, and have no pyiceberg.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from lockstep.adapters.archive.disk import to_disk
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator


def folder_of(address: str) -> Path:
    """Returns the local path of an address such as `file:///srv/lake`. Raises `Refusal` for any other."""
    parts = urlsplit(address)
    if parts.scheme != "file" or parts.netloc or not parts.path.startswith("/"):
        raise Refusal(
            f"the lake's address {address.partition('?')[0]!r} is no folder, such as file:///srv/lake",
            next_command="set LOCKSTEP_LAKE to file:///PATH",
        )
    return Path(unquote(parts.path))


class DataFile:
    """A Parquet file on its way. Its folder is there already, or the lake is not this machine's.

    Raises `ConnectionError` if the folder does not take it.
    """

    def __init__(self, address: str, schema: pa.Schema) -> None:
        self.address = address
        self.rows = 0
        self._path = folder_of(address)
        self._unfinished = self._path.with_name(f".{self._path.name}")
        if not self._path.parent.is_dir():
            raise ConnectionError(
                f"{self._path.parent} is not there on {socket.gethostname()}: mount the lake's folder on each machine of Spark"
            )
        with self._taken():
            self._writer = pq.ParquetWriter(self._unfinished, schema, compression="zstd")

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows, with exactly the file's schema."""
        with self._taken():
            self._writer.write_batch(rows)
        self.rows += rows.num_rows

    def close(self) -> None:
        """Forces the file to disk, and then gives it its name."""
        with self._taken():
            self._writer.close()
            to_disk(self._unfinished)
            self._unfinished.rename(self._path)
            to_disk(self._path.parent)

    def discard(self) -> None:
        """Takes an unfinished file away."""
        with self._taken():
            self._writer.close()
            self._unfinished.unlink(missing_ok=True)

    @contextmanager
    def _taken(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConnectionError(f"{self._path}: {error.strerror or error}") from error
