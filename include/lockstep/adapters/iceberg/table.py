"""Prepares the next state of an Iceberg table. Moves no pointer, and deletes nothing that a reader may need."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan, parquet_file_to_data_file
from pyiceberg.manifest import DataFileContent
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import update_table_metadata

from lockstep.adapters.iceberg.schema import ORIGIN_FIELDS, arrow_of_field, misfit, postgres_type, store_answers
from lockstep.adapters.iceberg.within import any_of, bounds_of_files, within_ranges
from lockstep.core.errors import Refusal
from lockstep.core.lake.files import Prepared, holds_replaced_alone, is_touched
from lockstep.core.lake.lake_findings import BOUNDED_COLUMNS, SMALL_FILE_BYTES, LakeFacts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import timedelta

    from pyiceberg.table import FileScanTask

    from lockstep.core.lake.files import Replaced
    from lockstep.core.pipeline.columns import Column

RUNS_CODE = ("write.py-location-provider.impl", "py-io-impl")  # whoever may write metadata would run code here


class LakeTable:
    """A table as its metadata file at `address` has it. It never changes: the next state has another address."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        io = load_file_io({}, address)
        with store_answers(f"{name}: {address}"):
            metadata = FromInputFile.table_metadata(io.new_input(address))
        if found := [key for key in RUNS_CODE if key in metadata.properties]:
            raise Refusal(
                f"{name}: the property {found[0]} would run code of the table's writer here",
                next_command=f"alter table {name} unset tblproperties ('{found[0]}')",
            )
        self._table = Table(tuple(name.split(".")[1:]), metadata, address, io, NoopCatalog("lockstep"))

    @property
    def uuid(self) -> str:
        """Returns the id of the table. A table that was dropped and made again has another."""
        return str(self._table.metadata.table_uuid)

    @property
    def location(self) -> str:
        """Returns the folder of the table."""
        return str(self._table.metadata.location)

    @property
    def snapshots(self) -> tuple[int, ...]:
        """Returns the snapshot that readers see and its ancestors, newest first."""
        known = {each.snapshot_id: each.parent_snapshot_id for each in self._table.metadata.snapshots}
        found, at = [], self._table.metadata.current_snapshot_id
        while at is not None and at in known:
            found.append(at)
            at = known[at]
        return tuple(found)

    def keeps(self, snapshot_id: int) -> bool:
        """Returns True if the metadata still has this snapshot, wherever readers are led."""
        return self._table.metadata.snapshot_by_id(snapshot_id) is not None

    def misfit(self, columns: Sequence[Column]) -> str | None:
        """Says why rows with these columns do not fit the table, or None if they do."""
        return misfit(self._table.metadata, columns)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Returns the columns as files have them, with the field ids of the table."""
        return pa.schema(
            pa.field(
                field.name,
                arrow_of_field(field.field_type),
                not field.required,
                {"PARQUET:field_id": str(field.field_id)},
            )
            for field in self._table.metadata.schema().fields
        )

    def prepare(
        self,
        commit_uuid: str,
        files: Sequence[str],
        replaced: Sequence[Replaced],
        prefix: str,
        summary: Mapping[str, str],
    ) -> Prepared:
        """Writes the metadata of one snapshot more: these files are in it, and the replaced rows are not.

        A file of replaced rows alone is dropped by its bounds. Another one is written anew below the prefix.
        """
        table = self.change(commit_uuid)
        drops, keeps, withdrawn = self._without(replaced, f"{prefix}/kept-{commit_uuid}") if replaced else ([], [], 0)
        with store_answers(self.name), table.transaction() as change:
            snapshot = change.update_snapshot(dict(summary))
            producer = snapshot.overwrite(UUID(commit_uuid)) if drops else snapshot.fast_append()
            producer.commit_uuid = UUID(commit_uuid)
            for file in drops:
                producer.delete_data_file(file)
            for path in (*files, *keeps):
                producer.append_data_file(parquet_file_to_data_file(table.io, table.metadata, path))
            producer.commit()
        return Prepared(
            commit_uuid,
            self.uuid,
            self.address,
            str(table.metadata_location),
            int(table.metadata.current_snapshot_id or 0),
            len(files),
            len(drops),
            len(keeps),
            withdrawn,
            getattr(table.current_snapshot(), "sequence_number", None),
        )

    @property
    def opened(self) -> Table:
        """Returns the table as pyiceberg reads it."""
        return self._table

    def change(self, commit_uuid: str) -> Table:
        """Returns the table of a catalog that writes the next metadata file, and moves nothing."""
        return Table(
            self._table.name(), self._table.metadata, self.address, self._table.io, _Preparing(UUID(commit_uuid))
        )

    def touched(self, replaced: Sequence[Replaced]) -> list[tuple[str, int, bool]]:
        """Returns (path, bytes, whole) of the files that hold replaced rows. A whole file holds no others."""
        return [(task.file.file_path, task.file.file_size_in_bytes, whole) for task, whole in self._touched(replaced)]

    def files(self) -> list[tuple[str, int, int]]:
        """Returns (path, rows, bytes) of each data file of the snapshot that readers see."""
        found = (task.file for task in self._table.scan().plan_files())
        return [(file.file_path, file.record_count, file.file_size_in_bytes) for file in found]

    def facts(self, longest: timedelta | None) -> LakeFacts:
        """Returns what `doctor` judges. `longest` is how long files have waited for their commit."""
        given = self._table.metadata.properties
        usual = given.get("write.metadata.metrics.default", "truncate(16)")
        tasks = list(self._table.scan().plan_files())
        sizes = [task.file.file_size_in_bytes for task in tasks]
        return LakeFacts(
            self.name,
            {name: given.get(f"write.metadata.metrics.column.{name}", usual) for name in BOUNDED_COLUMNS},
            len(sizes),
            sum(size < SMALL_FILE_BYTES for size in sizes),
            len(self._table.io.new_input(self.address)),
            sum(any(d.content == DataFileContent.EQUALITY_DELETES for d in task.delete_files) for task in tasks),
            longest,
            len(self._table.metadata.snapshots),
        )

    @property
    def postgres_columns(self) -> tuple[tuple[str, str], ...]:
        """Returns the columns with the types of Postgres that hold them exactly."""
        return tuple((field.name, postgres_type(field.field_type)) for field in self._table.metadata.schema().fields)

    def read(
        self, columns: Sequence[str], within: Sequence[Replaced] | None = None, without: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yields these columns of the rows that readers see, file by file, with the types of `arrow_schema`.

        With ranges, yields rows of these offsets alone. Files are left out by their bounds, and those of `without`.
        """
        wanted = AlwaysTrue() if within is None else within_ranges(within)
        schema = pa.schema([self.arrow_schema.field(name) for name in columns]).remove_metadata()
        with store_answers(self.name):
            scan = self._table.scan(wanted, selected_fields=tuple(columns))
            tasks = [task for task in scan.plan_files() if task.file.file_path not in without]
            reading = ArrowScan(self._table.metadata, self._table.io, scan.projection(), wanted)
            for batch in reading.to_record_batches(tasks):
                if batch.num_rows:
                    yield batch.select(list(columns)).cast(schema)

    def _without(self, replaced: Sequence[Replaced], stem: str) -> tuple[list[Any], list[str], int]:
        """Returns the files to drop, the new files with their other rows, and how many rows go."""
        drops: list[Any] = []
        keeps: list[str] = []
        withdrawn = 0
        schema = self._table.metadata.schema()
        for task, whole in self._touched(replaced):
            rows = 0
            if not whole or task.delete_files:
                scan = ArrowScan(self._table.metadata, self._table.io, schema, AlwaysTrue())
                held = scan.to_table([task])
                kept = held.filter(pc.invert(any_of(replaced, held)))
                withdrawn += held.num_rows - kept.num_rows
                if kept.num_rows == held.num_rows:
                    continue  # bounds overlap, and no row is replaced
                rows = kept.num_rows
                if rows:
                    keeps.append(f"{stem}-{len(keeps)}.parquet")
                    self.write(keeps[-1], kept.cast(self.arrow_schema))
            else:
                withdrawn += task.file.record_count
            drops.append(task.file)
        return drops, keeps, withdrawn

    def write(self, path: str, rows: pa.Table) -> None:
        """Writes rows to a new file."""
        with store_answers(path), self._table.io.new_output(path).create() as out:
            pq.write_table(rows, out, compression="zstd")

    def _touched(self, replaced: Sequence[Replaced]) -> Iterator[tuple[FileScanTask, bool]]:
        ids = {name: self._table.metadata.schema().find_field(name) for name, _ in ORIGIN_FIELDS}
        for task in self._table.scan().plan_files():
            if any(file.content == DataFileContent.EQUALITY_DELETES for file in task.delete_files):
                raise Refusal(f"{self.name}: {task.file.file_path} has equality deletes, which cannot be applied here")
            bounds = [bounds_of_files(task.file, ids[name]) for name in ("_stream", "_offset")]
            if is_touched(replaced, *bounds):
                yield task, holds_replaced_alone(replaced, *bounds)


class _Preparing(NoopCatalog):
    """A catalog whose commit writes the metadata file and moves nothing."""

    def __init__(self, commit_uuid: UUID) -> None:
        super().__init__("lockstep")
        self._uuid = commit_uuid

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        for requirement in requirements:
            requirement.validate(table.metadata)
        base, address = table.metadata, str(table.metadata_location)
        metadata = update_table_metadata(base, updates, metadata_location=address)
        number = address.rpartition("/")[2].partition("-")[0]
        version = int(number) + 1 if number.isdecimal() else 0
        after = table.location_provider().new_metadata_location(f"{version:05d}-{self._uuid}.metadata.json")
        ToOutputFile.table_metadata(metadata, table.io.new_output(after))
        return CommitTableResponse(metadata=metadata, metadata_location=after)

    @staticmethod
    def _delete_old_metadata(io: Any, base: Any, metadata: Any) -> None:
        """Deletes nothing. pyiceberg asks for it at once, and the pointer may never move."""
