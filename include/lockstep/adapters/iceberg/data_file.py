"""Writes a data file into the lake: whole and safe under its name, or not there. Reads it back, and cuts rows into several.

Tasks use it, and have no pyiceberg.
"""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockstep.adapters.iceberg.store import configured_lake, folder_command, lake_place, require_store, told
from lockstep.adapters.iceberg.values import doubled, is_rising, places_in, stream_sums, value_digests
from lockstep.core.errors import BadData
from lockstep.core.lake.files import ROWS_PER_FILE, LakeFile, OffsetSums, add_sums
from lockstep.core.records import COORDINATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from lockstep.core.lake.lake_options import LakeOptions

    Look = Callable[[pa.RecordBatch], None]

GROUP_ROWS, GROUP_BYTES = 100_000, 32 * 2**20
ROWS_PER_LOOK = 50_000
SAMPLED_ROWS, MOST_UNIQUE = 10_000, 0.9
READ_BACK = [*COORDINATES, "_batch"]
NOWHERE = np.zeros((len(COORDINATES), 0), np.int64)  # the places of no row
MOST_ASKED_AT_ONCE = 4  # files


class DataFile:
    """A Parquet file on its way. Its folder is there already, or the lake is not this machine's.

    `options` are those of an object store. Raises `ConnectionError` if the store does not take the file.
    """

    def __init__(
        self, address: str, schema: pa.Schema, options: LakeOptions | None = None, look: Look | None = None
    ) -> None:
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
            self._writer = RowGroups(self._out, schema, look)

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
    """Writes Parquet in groups of many rows, but of few bytes: readers take them faster. `look` sees all rows before."""

    def __init__(self, sink: Any, schema: pa.Schema, look: Look | None = None) -> None:
        self._sink, self._schema, self._look = sink, schema, look
        self._writer: Any = None
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
        if self._held or self._writer is None:
            self._end_group()
        self._writer.close()

    def _end_group(self) -> None:
        group = pa.Table.from_batches(self._held, self._schema).combine_chunks()
        if self._look is not None:
            for rows in group.to_batches(ROWS_PER_LOOK):
                self._look(rows)
        if self._writer is None:
            self._writer = _opened(self._sink, group)
        self._writer.write_table(group)
        self._held, self._rows, self._bytes = [], 0, 0


def _opened(sink: Any, first: pa.Table) -> Any:
    """Opens a file for rows like these. Values that seldom repeat get no dictionary: it would cost time and bytes."""
    some = first.slice(0, SAMPLED_ROWS)
    repeated = [name for name in some.schema.names if len(some[name].unique()) <= MOST_UNIQUE * some.num_rows]
    # Decimals as Iceberg's. No numbers as differences: Iceberg's readers in Spark refused these until 2025.
    its = {"use_dictionary": repeated, "store_decimal_as_integer": True}
    return pq.ParquetWriter(sink, first.schema, compression="zstd", **its)


def look_back(address: str, batch_id: int, columns: Sequence[str] = (), options: LakeOptions | None = None) -> LakeFile:
    """Reads the coordinates of a file's rows back from the store, with `columns` all of its values, to digest these.

    Raises `BadData` for a file that is not whole, and for a row that is in it twice.
    """
    sums: dict[int, OffsetSums] = {}
    digests: dict[int, int] = {}
    count, rises, last = 0, True, NOWHERE
    with _read_from(address, batch_id, options) as (file, size):
        for rows in file.iter_batches(columns=None if columns else READ_BACK):
            count += rows.num_rows
            if rows.num_rows != (pc.sum(pc.equal(rows["_batch"], batch_id)).as_py() or 0):
                raise BadData(f"batch {batch_id}: {address} holds rows of another batch")
            places = np.concatenate([last, places_in(rows)], axis=1)
            rises, last = rises and is_rising(places), places[:, -1:]
            for stream, its in stream_sums(rows).items():
                sums[stream] = add_sums(sums.get(stream), its)
            for stream, digest in value_digests(rows, columns).items() if columns else ():
                digests[stream] = digests.get(stream, 0) + digest
    if not rises:  # as tasks and sorted rows do
        require_each_once([address], batch_id, options)
    streams = {str(stream): its for stream, its in sums.items()}
    hashes = {str(stream): digest for stream, digest in digests.items()}
    return LakeFile(address, count, size, streams, hashes, tuple(columns))


def require_each_once(addresses: Sequence[str], batch_id: int, options: LakeOptions | None = None) -> None:
    """Raises `BadData` if two rows of these files have one stream, offset and ordinal."""
    found = []
    for address in addresses:
        with _read_from(address, batch_id, options) as (file, _):
            found.append(places_in(file.read(list(COORDINATES))))
    _refuse_twice(np.concatenate([NOWHERE, *found], axis=1), batch_id)


def _refuse_twice(places: Any, batch_id: int) -> None:
    if twice := doubled(places):
        raise BadData(
            f"batch {batch_id}: stream {twice[0]} offset {twice[1]} has two rows with _ordinal {twice[2]}",
            next_command=f"lockstep batch {batch_id}",
        )


def require_as_told(files: Sequence[LakeFile], batch_id: int) -> None:
    """Raises `BadData` unless the store has each of these files, with as many bytes and rows in its footer."""

    def look(file: LakeFile) -> None:
        with _read_from(file.path, batch_id) as (opened, size):
            if (opened.metadata.num_rows, size) == (file.rows, file.bytes):
                return
        raise BadData(
            f"batch {batch_id}: {file.path} does not hold the {file.rows} rows that were written into it",
            next_command=f"lockstep batch {batch_id}",
        )

    with ThreadPoolExecutor(MOST_ASKED_AT_ONCE) as pool:
        list(pool.map(look, files))


@contextmanager
def _read_from(address: str, batch_id: int, options: LakeOptions | None = None) -> Iterator[tuple[pq.ParquetFile, int]]:
    """Opens a file of the store. Yields its bytes, too. Raises `BadData` if it cannot be read, there or in the block."""
    try:
        place = lake_place(address, options)
        yield pq.ParquetFile(place.fs.open_input_file(place.path)), place.size()
    except (OSError, ValueError, KeyError) as error:  # what Arrow raises of a truncated file is a ValueError
        if isinstance(error, OSError):
            require_store(address, error, options)
        raise BadData(f"batch {batch_id}: {address} cannot be read back: {str(error).splitlines()[0]}") from None


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
        self._last = NOWHERE

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
        keys = np.concatenate([self._last, places_in(rows)], axis=1)
        _refuse_twice(keys, self._batch_id)
        self._last = keys[:, -1:]
