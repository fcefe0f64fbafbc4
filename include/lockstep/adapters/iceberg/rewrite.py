"""Writes rows of small files into fewer ones, and manifests into fewer. Readers see the same rows before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import ManifestContent
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _MergeAppendFiles, _OverwriteFiles

from lockstep.adapters.iceberg.history import LakeTransaction
from lockstep.adapters.iceberg.schema import ORIGIN_FIELDS, store_answers, written_by
from lockstep.adapters.iceberg.values import value_digests
from lockstep.adapters.iceberg.within import (
    bounds_of_files,
    equality_deletes,
    file_of_table,
    refuse_equality_deletes,
    stale_column,
)
from lockstep.core.errors import BadData, LakeMoved
from lockstep.core.lake.keeping import LakeChange, SmallFile
from lockstep.core.lake.lake_findings import BOUNDED_COLUMNS, SMALL_FILE_BYTES, LakeFacts
from lockstep.core.records import COORDINATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from pyiceberg.table import FileScanTask, Table, Transaction

    from lockstep.adapters.iceberg.table import LakeTable


class _Same:
    """Says in a snapshot's summary that its rows are those of its parent."""

    def _summary(self, snapshot_properties: dict[str, str]) -> Summary:
        found = super()._summary(snapshot_properties)  # type: ignore[misc]
        return Summary(operation=Operation.REPLACE, **found.additional_properties)


class _Merge(_Same, _OverwriteFiles):
    """A snapshot that has one file in place of others."""


class _FewerManifests(_Same, _MergeAppendFiles):
    """A snapshot with the files of its parent, in as few manifests as hold them."""

    def merge_all(self) -> None:
        self._merge_enabled, self._min_count_to_merge = True, 2


def small_files(table: LakeTable, below: int) -> list[SmallFile]:
    """Returns the files below a size in bytes. One with deletes of other writers is left to them.

    Raises `Refusal` if such deletes are by value: they may be of any file.
    """
    opened = table.opened
    ids = {name: opened.metadata.schema().find_field(name) for name, _ in ORIGIN_FIELDS}
    with store_answers(table.name):
        refuse_equality_deletes(table.name, opened.metadata, opened.io)
        return [
            SmallFile(
                bounds_of_files(task.file, ids["_stream"]),
                bounds_of_files(task.file, ids["_offset"]),
                task.file.file_path,
                task.file.record_count,
                task.file.file_size_in_bytes,
            )
            for task in opened.scan().plan_files()
            if task.file.file_size_in_bytes < below and not task.delete_files
        ]


def groups_of_files(
    table: LakeTable, files: Sequence[SmallFile], most_bytes: int, fewest: int
) -> Iterator[tuple[list[SmallFile], pa.Table]]:
    """Yields files that go together, with their rows in the log's order.

    Rows of one group are at most so many bytes in memory. A file that alone has more is left out.
    """
    tasks = _tasks(table.name, table.opened)
    taken: list[SmallFile] = []
    held: list[pa.RecordBatch] = []
    size = 0
    for file in files:
        rows = _rows(table, tasks[file.path], most_bytes)
        its = sum(batch.nbytes for batch in rows)
        if size + its > most_bytes:
            if len(taken) >= fewest:
                yield taken, _sorted(table, held)
            taken, held, size = [], [], 0
        if its <= most_bytes:
            taken, held, size = [*taken, file], [*held, *rows], size + its
    if len(taken) >= fewest:
        yield taken, _sorted(table, held)


def _rows(table: LakeTable, task: FileScanTask, most_bytes: int) -> list[pa.RecordBatch]:
    """Returns the rows of a file. Stops reading where they are more than these bytes."""
    opened = table.opened
    found: list[pa.RecordBatch] = []
    with store_answers(task.file.file_path):
        scan = ArrowScan(opened.metadata, opened.io, opened.metadata.schema(), AlwaysTrue())
        for batch in scan.to_record_batches([task]):
            if batch.num_rows:
                found.append(batch.select(table.arrow_schema.names).cast(table.arrow_schema))
            if sum(each.nbytes for each in found) > most_bytes:
                return found
    if sum(batch.num_rows for batch in found) != task.file.record_count:
        raise BadData(f"{table.name}: {task.file.file_path} does not hold its {task.file.record_count} rows")
    return found


def _sorted(table: LakeTable, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    rows = pa.Table.from_batches(batches, table.arrow_schema)
    return rows.sort_by([(name, "ascending") for name in COORDINATES])


def digests_of_rows(rows: pa.Table) -> dict[int, int]:
    """Returns the digest of all values, by stream."""
    columns = [name for name in rows.column_names if name not in COORDINATES]
    found: dict[int, int] = {}
    for batch in rows.to_batches():
        for stream, digest in value_digests(batch, columns).items():
            found[stream] = found.get(stream, 0) + digest
    return found


def write_merged(table: LakeTable, path: str, rows: pa.Table) -> None:
    """Writes rows to a new file and reads it back. Raises `BadData` if the store gives back others."""
    table.write(path, rows)
    opened = table.opened
    found: dict[int, int] = {}
    with store_answers(path), opened.io.new_input(path).open() as file:
        for batch in pq.ParquetFile(file).iter_batches():
            for stream, digest in digests_of_rows(pa.Table.from_batches([batch])).items():
                found[stream] = found.get(stream, 0) + digest
    if found != digests_of_rows(rows):
        raise BadData(f"{table.name}: {path} does not hold the rows that were written into it")


def prepare_merge(table: LakeTable, commit_uuid: str, gone: Sequence[str], path: str) -> LakeChange:
    """Writes the metadata of one snapshot more, with this file in place of others.

    Raises `LakeMoved` if one of them is gone, or another writer has deleted rows of it.
    """
    changing = table.change(commit_uuid)
    tasks = _tasks(table.name, changing)
    if not all(each in tasks and not tasks[each].delete_files for each in gone):
        raise LakeMoved(f"{table.name}: another writer has changed the files that were merged")
    with store_answers(path):
        if name := stale_column(changing.io, changing.metadata, path):
            raise LakeMoved(f"{table.name}: another writer has changed the column {name} of the files that were merged")

    def produce(change: Transaction) -> Any:
        producer = _Merge(Operation.OVERWRITE, change, changing.io, UUID(commit_uuid), {"lockstep.upkeep": "merge"})
        for each in gone:
            producer.delete_data_file(tasks[each].file)
        producer.append_data_file(file_of_table(changing.io, changing.metadata, path))
        return producer

    return _changed(table, changing, commit_uuid, produce)


def count_manifests(table: LakeTable) -> int:
    """Returns the number of manifests of data that a reader of the table reads."""
    opened = table.opened
    snapshot = opened.current_snapshot()
    with store_answers(table.name):
        return sum(m.content == ManifestContent.DATA for m in snapshot.manifests(opened.io)) if snapshot else 0


def prepare_manifests(table: LakeTable, commit_uuid: str) -> LakeChange:
    """Writes the metadata of one snapshot more, with the same files in fewer manifests."""
    changing = table.change(commit_uuid)

    def produce(change: Transaction) -> Any:
        facts = {"lockstep.upkeep": "manifests"}
        producer = _FewerManifests(
            Operation.APPEND, change, changing.io, commit_uuid=UUID(commit_uuid), snapshot_properties=facts
        )
        producer.merge_all()
        return producer

    return _changed(table, changing, commit_uuid, produce)


def _changed(table: LakeTable, changing: Table, commit_uuid: str, produce: Any) -> LakeChange:
    with store_answers(table.name), LakeTransaction(changing) as change:
        producer = produce(change)
        producer.commit()
    after = str(changing.metadata_location)
    return LakeChange(commit_uuid, table.address, after, int(producer.snapshot_id), tuple(written_by(changing)))


def _tasks(name: str, opened: Table) -> dict[str, FileScanTask]:
    with store_answers(name):
        refuse_equality_deletes(name, opened.metadata, opened.io)
        return {task.file.file_path: task for task in opened.scan().plan_files()}


def lake_facts(table: LakeTable, longest: timedelta | None) -> LakeFacts:
    """Returns what `doctor` judges. `longest` is how long files have waited for their commit."""
    opened = table.opened
    given = opened.metadata.properties
    usual = given.get("write.metadata.metrics.default", "truncate(16)")
    with store_answers(f"{table.name}: {table.address}"):
        deletes = equality_deletes(opened.metadata, opened.io)
        size = len(opened.io.new_input(table.address))
    sizes = [] if deletes else [each for _, _, each in table.files()]
    return LakeFacts(
        table.name,
        {name: given.get(f"write.metadata.metrics.column.{name}", usual) for name in BOUNDED_COLUMNS},
        len(sizes),
        sum(each < SMALL_FILE_BYTES for each in sizes),
        size,
        len(deletes),
        longest,
        len(opened.metadata.snapshots),
    )
