"""Prepares the next state of an Iceberg table. Moves no pointer, and deletes nothing that a reader may need."""

from __future__ import annotations

from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table

from lockstep.adapters.iceberg.data_file import GROUP_ROWS, RowGroups
from lockstep.adapters.iceberg.history import LakeTransaction, Preparing, without_history
from lockstep.adapters.iceberg.schema import (
    FileDoor,
    arrow_schema_of,
    known_fields,
    misfit,
    postgres_type,
    store_answers,
    written_by,
)
from lockstep.adapters.iceberg.store import configured_lake, lake_place
from lockstep.adapters.iceberg.within import (
    any_of,
    file_of_table,
    refuse_equality_deletes,
    touched_files,
    within_ranges,
)
from lockstep.core.errors import Refusal
from lockstep.core.lake.files import NOTHING_TOLD, Prepared
from lockstep.core.lake.lake_options import LakeOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyiceberg.table import FileScanTask

    from lockstep.core.lake.files import BoundsOfFiles, Replaced
    from lockstep.core.pipeline.columns import Column

RUNS_CODE = ("write.py-location-provider.impl", "py-io-impl")  # whoever may write metadata would run code here


class LakeTable:
    """A table as its metadata file at `address` has it. It never changes: the next state has another address."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        io = FileDoor()
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
    def options(self) -> LakeOptions:
        """Returns what tasks need to write files beside the table's: keys of its store, and nothing for a folder."""
        return LakeOptions() if lake_place(self.location).local else configured_lake()

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

    @property
    def ids(self) -> dict[str, int]:
        """Returns the field ids of the columns."""
        return {field.name: field.field_id for field in self._table.metadata.schema().fields}

    def misfit(self, columns: Sequence[Column]) -> str | None:
        """Says why rows with these columns do not fit the table, or None if they do."""
        return misfit(self._table.metadata, columns)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Returns the columns as files have them, with the field ids of the table."""
        return arrow_schema_of(self.name, self._table.metadata)

    def answers(self, what: str = "") -> AbstractContextManager[None]:
        """Turns what the table's store refuses into one line, about a file or about the table."""
        return store_answers(what or f"{self.name}: {self.address}")

    def prepare(
        self,
        commit_uuid: str,
        files: Sequence[str],
        replaced: Sequence[Replaced],
        prefix: str,
        summary: Mapping[str, str],
        told: BoundsOfFiles = NOTHING_TOLD,
    ) -> Prepared:
        """Writes the metadata of one snapshot more: these files are in it, and the replaced rows are not.

        A file of replaced rows alone is dropped by its bounds, or by what is `told` of it. Another one is written anew
        below the prefix.
        """
        drops, keeps, withdrawn = self._without(replaced, f"{prefix}/kept-{commit_uuid}", told)
        after, snapshot_id, sequence, written = self._prepared(commit_uuid, drops, (*files, *keeps), summary)
        counts = (len(files), len(drops), len(keeps), withdrawn)
        return Prepared(commit_uuid, self.uuid, self.address, after, snapshot_id, *counts, sequence, (*keeps, *written))

    def _prepared(
        self, commit_uuid: str, drops: Sequence[Any], adds: Sequence[str], summary: Mapping[str, str]
    ) -> tuple[str, int, int | None, list[str]]:
        """Writes the metadata of a snapshot without some files and with others.

        Returns its address, the snapshot with its order, and what was written for it.
        """
        table = self.change(commit_uuid)
        with self.answers(), LakeTransaction(table) as change:
            snapshot = change.update_snapshot(dict(summary))
            producer = snapshot.overwrite(UUID(commit_uuid)) if drops else snapshot.fast_append()
            producer.commit_uuid = UUID(commit_uuid)
            for file in drops:
                producer.delete_data_file(file)
            for path in adds:
                producer.append_data_file(file_of_table(table.io, table.metadata, path))
            producer.commit()
        sequence = getattr(table.current_snapshot(), "sequence_number", None)
        return str(table.metadata_location), int(table.metadata.current_snapshot_id or 0), sequence, written_by(table)

    @property
    def opened(self) -> Table:
        """Returns the table as pyiceberg reads it."""
        return self._table

    def change(self, commit_uuid: str, *, whole: bool = False) -> Table:
        """Returns the table of a catalog that writes the next metadata file, and moves nothing.

        Without `whole`, pyiceberg sees the heads of its history alone, and can change no older snapshot.
        """
        metadata = self._table.metadata
        catalog = Preparing(UUID(commit_uuid), None if whole else metadata)
        seen = metadata if whole else without_history(metadata)
        return Table(self._table.name(), seen, self.address, FileDoor(), catalog)

    def touched(self, replaced: Sequence[Replaced]) -> list[tuple[str, int, bool]]:
        """Returns (path, bytes, whole) of the files that hold replaced rows. A whole file holds no others."""
        return [(task.file.file_path, task.file.file_size_in_bytes, whole) for task, whole in self._touched(replaced)]

    def files(self) -> list[tuple[str, int, int]]:
        """Returns (path, rows, bytes) of each data file of the snapshot that readers see."""
        found = (task.file for task in self._plan())
        return [(file.file_path, file.record_count, file.file_size_in_bytes) for file in found]

    @property
    def postgres_columns(self) -> tuple[tuple[str, str], ...]:
        """Returns the columns with the types of Postgres that hold them exactly."""
        fields = known_fields(self.name, self._table.metadata)
        return tuple((field.name, postgres_type(field.field_type)) for field in fields)

    def read(
        self, columns: Sequence[str], within: Sequence[Replaced] | None = None, without: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yields these columns of the rows that readers see, file by file, with the types of `arrow_schema`.

        With ranges, yields rows of these offsets alone. Files are left out by their bounds, and those of `without`.
        """
        wanted = AlwaysTrue() if within is None else within_ranges(within)
        schema = pa.schema([self.arrow_schema.field(name) for name in columns]).remove_metadata()
        with self.answers():
            refuse_equality_deletes(self.name, self._table.metadata, self._table.io)
            scan = self._table.scan(wanted, selected_fields=tuple(columns))
            tasks = [task for task in scan.plan_files() if task.file.file_path not in without]
            reading = ArrowScan(self._table.metadata, self._table.io, scan.projection(), wanted)
            for batch in reading.to_record_batches(tasks):
                if batch.num_rows:
                    yield batch.select(list(columns)).cast(schema)

    def _without(
        self, replaced: Sequence[Replaced], stem: str, told: BoundsOfFiles = NOTHING_TOLD
    ) -> tuple[list[Any], list[str], int]:
        """Returns the files to drop, the new files with their other rows, and how many rows go."""
        drops: list[Any] = []
        keeps: list[str] = []
        withdrawn = 0
        schema = self._table.metadata.schema()
        with self.answers():
            tasks = list(self._touched(replaced, told)) if replaced else []
        for task, whole in tasks:
            if not whole or task.delete_files:
                scan = ArrowScan(self._table.metadata, self._table.io, schema, AlwaysTrue())
                with self.answers():
                    held = scan.to_table([task])
                kept = held.filter(pc.invert(any_of(replaced, held)))
                withdrawn += held.num_rows - kept.num_rows
                if kept.num_rows == held.num_rows:
                    continue  # bounds overlap, and no row is replaced
                if kept.num_rows:
                    keeps.append(f"{stem}-{len(keeps)}.parquet")
                    self.write(keeps[-1], kept.cast(self.arrow_schema))
            else:
                withdrawn += task.file.record_count
            drops.append(task.file)
        return drops, keeps, withdrawn

    def write(self, path: str, rows: pa.Table) -> None:
        """Writes rows to a new file."""
        with (
            self.answers(path),
            self._table.io.new_output(path).create() as out,
            closing(RowGroups(out, rows.schema)) as its,
        ):
            for some in rows.to_batches(GROUP_ROWS):
                its.write(some)

    def _touched(
        self, replaced: Sequence[Replaced], told: BoundsOfFiles = NOTHING_TOLD
    ) -> Iterator[tuple[FileScanTask, bool]]:
        fields = [self._table.metadata.schema().find_field(name) for name in ("_stream", "_offset")]
        return touched_files(self._plan(), fields, replaced, told)

    def _plan(self, wanted: Any = AlwaysTrue()) -> Iterator[FileScanTask]:  # noqa: B008 - it never changes
        """Yields the files of the snapshot that readers see, those left out whose bounds hold no wanted row."""
        with self.answers():
            refuse_equality_deletes(self.name, self._table.metadata, self._table.io)
            yield from self._table.scan(wanted).plan_files()
