"""Parts an Iceberg table into the rows of some keys and all others. Reads and writes file by file, some rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThanOrEqual, Or
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files

from lockstep.adapters.iceberg.data_file import RowGroups
from lockstep.adapters.iceberg.keyed_values import held_rows
from lockstep.adapters.iceberg.schema import store_answers
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.adapters.iceberg.values import stream_sums
from lockstep.adapters.iceberg.within import any_of, within_ranges
from lockstep.core.errors import BadData
from lockstep.core.lake.files import LakeFile, add_sums
from lockstep.core.lake.keyed import HeldRows, add_held
from lockstep.core.lake.lake_findings import SMALL_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyiceberg.table import FileScanTask

    from lockstep.adapters.iceberg.keyed_values import Keys
    from lockstep.core.lake.files import OffsetSums, Replaced

ROWS_PER_KEPT_FILE = 1_000_000
READ_ROWS = 65_536


class Parted(NamedTuple):
    """The files that hold rows of the keys, and the new files with their other rows."""

    drops: list[Any]
    kept: list[str]


class KeyedTable(LakeTable):
    """A lake table with one row per key, as its metadata has it."""

    def __init__(self, table: LakeTable) -> None:
        super().__init__(table.name, table.address)

    def rows_of(self, keys: Keys, replaced: Sequence[Replaced]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of these keys, and those of replaced offsets."""
        with store_answers(self.name):
            for task in self._holders(keys, replaced):
                for rows in self._scan(task, self.arrow_schema.names):
                    if (found := rows.filter(_wanted(rows, keys, replaced))).num_rows:
                        yield found

    def part(
        self, keys: Keys, replaced: Sequence[Replaced], stem: str, take: Callable[[pa.RecordBatch], None]
    ) -> Parted:
        """Gives `take` the rows of these keys and of replaced offsets. Writes the others of their files anew.

        New files begin with `stem`. Small files become one. Each is read back.
        """
        drops: list[Any] = []
        with store_answers(self.name), _Rest(self, stem) as rest:
            for task in self._holders(keys, replaced):
                drops.append(task.file)
                rest.begin(task.file.file_size_in_bytes)
                for rows in self._scan(task, self.arrow_schema.names):
                    wanted = _wanted(rows, keys, replaced)
                    take(rows.filter(wanted))
                    rest.write(rows.filter(pc.invert(wanted)))
        for path, sums in rest.files.items():
            if self._sums_of(path) != sums:
                raise BadData(f"{self.name}: {path} does not hold the rows that were written into it")
        return Parted(drops, list(rest.files))

    def prepare_keys(
        self, commit_uuid: str, parted: Parted, files: Sequence[str], summary: Mapping[str, str]
    ) -> tuple[str, int, int | None, list[str]]:
        """Writes the metadata of one snapshot more. Returns its address, the snapshot with its order, and what was written."""
        return self._prepared(commit_uuid, parted.drops, (*parted.kept, *files), summary)

    def look_back(self, path: str) -> tuple[LakeFile, HeldRows]:
        """Reads a whole file back from the store: its offsets by stream, and what it holds of each batch."""
        held: HeldRows = {}
        sums: dict[int, OffsetSums] = {}
        rows = 0
        source = self._table.io.new_input(path)
        with store_answers(path), source.open() as opened:
            for batch in pq.ParquetFile(opened).iter_batches(READ_ROWS):
                rows += batch.num_rows
                add_held(held, held_rows(batch, self.ids))
                _add(sums, batch)
        return LakeFile(path, rows, len(source), {str(stream): its for stream, its in sums.items()}), held

    def _sums_of(self, path: str) -> dict[int, OffsetSums]:
        sums: dict[int, OffsetSums] = {}
        with store_answers(path), self._table.io.new_input(path).open() as opened:
            for batch in pq.ParquetFile(opened).iter_batches(READ_ROWS, columns=["_stream", "_offset"]):
                _add(sums, batch)
        return sums

    def _holders(self, keys: Keys, replaced: Sequence[Replaced]) -> Iterator[FileScanTask]:
        """Yields the files that hold one of these rows: by bounds, and then by their columns of keys."""
        names = list(dict.fromkeys((*keys.columns, "_stream", "_offset")))
        for task in self._plan(_within(keys, replaced)):
            if any(pc.any(_wanted(rows, keys, replaced)).as_py() for rows in self._scan(task, names)):
                yield task

    def _scan(self, task: FileScanTask, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields these columns of a file's rows, without those that other writers have deleted."""
        wanted = pa.schema([self.arrow_schema.field(name) for name in names]).remove_metadata()
        scan = ArrowScan(
            self._table.metadata, self._table.io, self._table.metadata.schema().select(*names), AlwaysTrue()
        )
        # its public method reads the file as a whole before it yields
        deleted = _read_all_delete_files(self._table.io, [task])
        for rows in scan._record_batches_from_scan_tasks_and_deletes([task], deleted):  # noqa: SLF001
            yield rows.select(list(names)).cast(wanted)


class _Rest:
    """Writes rows into new files of the store. A file of some size begins another one."""

    def __init__(self, table: KeyedTable, stem: str) -> None:
        self.files: dict[str, dict[int, OffsetSums]] = {}
        self._table, self._stem = table, stem
        self._writer: RowGroups | None = None
        self._out: Any = None
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def begin(self, size: int) -> None:
        """Begins the rest of a file with so many bytes."""
        if size >= SMALL_FILE_BYTES or self._rows >= ROWS_PER_KEPT_FILE:
            self._close()

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows, if there are any."""
        if not rows.num_rows:
            return
        if self._writer is None:
            path = f"{self._stem}-{len(self.files)}.parquet"
            self._out = self._table._table.io.new_output(path).create()  # noqa: SLF001 - both write this table
            self._writer = RowGroups(self._out, self._table.arrow_schema)
            self.files[path] = {}
        self._writer.write(rows.cast(self._table.arrow_schema))
        self._rows += rows.num_rows
        _add(self.files[f"{self._stem}-{len(self.files) - 1}.parquet"], rows)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._out.close()
        self._writer, self._rows = None, 0


def _add(sums: dict[int, OffsetSums], rows: pa.RecordBatch) -> None:
    for stream, its in stream_sums(rows).items():
        sums[stream] = add_sums(sums.get(stream), its)


def _wanted(rows: pa.RecordBatch, keys: Keys, replaced: Sequence[Replaced]) -> pa.Array:
    """Returns, for each row, if it has one of the keys or is of a replaced offset."""
    held = keys.hold(rows)
    return pc.or_(held, any_of(replaced, rows)) if replaced else held


def _within(keys: Keys, replaced: Sequence[Replaced]) -> Any:
    """Returns the expression by which bounds of files leave out files without any such row."""
    if not keys.rows:
        return within_ranges(replaced)
    each = [
        And(GreaterThanOrEqual(name, low), LessThanOrEqual(name, high)) for name, (low, high) in keys.bounds.items()
    ]
    if not each:
        return AlwaysTrue()
    of_keys = And(*each) if len(each) > 1 else each[0]
    return Or(of_keys, within_ranges(replaced)) if replaced else of_keys
