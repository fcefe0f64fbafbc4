"""Appends to a table whose catalog is elsewhere, by one request that holds only if nobody has moved the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId, AssertTableUUID

from lockstep.adapters.iceberg.data_file import CutFiles
from lockstep.adapters.iceberg.folder import settle
from lockstep.adapters.iceberg.history import LakeTransaction, in_order_of_time
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.adapters.iceberg.values import stream_sums
from lockstep.adapters.iceberg.within import file_of_table, stale_column
from lockstep.core.errors import BadData
from lockstep.core.lake.arrivals import arrival_in_property, arrival_in_summary, property_of
from lockstep.core.lake.files import add_sums, prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement

    from lockstep.adapters.iceberg.catalog import OpenCatalog
    from lockstep.core.lake.arrivals import Arrival
    from lockstep.core.lake.files import OffsetSums, Replaced

ON_DISK = "file:"


class TableElsewhere(LakeTable):
    """A table as its catalog has told it, once. A commit holds only for this state."""

    def __init__(self, pipeline: str, catalog: OpenCatalog, table: Table) -> None:
        self.name = ".".join((catalog.settings.name, *table.name()))
        self.address = str(table.metadata_location)
        self._pipeline, self._catalog, self._table = pipeline, catalog, table

    @property
    def properties(self) -> Mapping[str, str]:
        """Returns the table's properties."""
        return dict(self._table.metadata.properties)

    def answers(self, what: str = "") -> AbstractContextManager[None]:
        """Turns what the table's store refuses into one line. Its login is the catalog's, and not that of the lake."""
        return self._catalog.store_answers(self._pipeline, what or self.name)

    def arrivals(self) -> list[Arrival]:
        """Returns the deliveries of the pipeline that the snapshots tell of, from the one that readers see backwards."""
        known = {each.snapshot_id: each for each in self._table.metadata.snapshots}
        told = (known[each].summary for each in self.snapshots)
        found = (arrival_in_summary(self._pipeline, of.additional_properties) for of in told if of is not None)
        return [each for each in found if each is not None]

    def last_arrival(self) -> Arrival | None:
        """Returns the last delivery by the table's property. A rollback of the snapshots leaves it as it is."""
        return arrival_in_property(self._pipeline, self.properties)

    def rows_of(self, batch_id: int, within: Sequence[Replaced]) -> int:
        """Counts the rows of a batch on these offsets."""
        found = (batch.column("_batch") for batch in self.read(["_batch", "_stream", "_offset"], within))
        return sum(int(pc.sum(pc.equal(each, batch_id)).as_py() or 0) for each in found)

    def write_files(self, arrival: Arrival, spooled: Iterable[Path], stem: str) -> list[str]:
        """Writes local files of rows into the table's folder, and reads them back. Returns their addresses.

        Raises `BadData` for a value that no column holds, and for two rows with one key.
        """
        prefix = prefix_of(self.location, arrival.batch_id, arrival.token)
        paths: list[str] = []
        sums: dict[int, OffsetSums] = {}

        def open_file(number: int) -> AbstractContextManager[Any]:
            paths.append(f"{prefix}/{stem}-{number}.parquet")
            out: AbstractContextManager[Any] = self._table.io.new_output(paths[-1]).create()
            return out

        with self.answers(), CutFiles(arrival.batch_id, self.arrow_schema, open_file) as cut:
            for rows in (each for file in spooled for each in pq.ParquetFile(file).iter_batches()):
                cut.write(self._aligned(arrival, rows))
                for stream, its in stream_sums(rows).items():
                    sums[stream] = add_sums(sums.get(stream), its)
        if self._read_back(paths) != sums:
            raise BadData(
                f"{self._pipeline}: batch {arrival.batch_id}: the files of {self.name} do not hold the rows that are staged",
                next_command=f"lockstep batch {arrival.batch_id}",
            )
        if self.address.startswith(ON_DISK):
            settle(paths)
        return paths

    def commit(
        self,
        arrival: Arrival,
        files: Sequence[str],
        replaced: Sequence[Replaced],
        try_uuid: str,
        summary: dict[str, str],
    ) -> int:
        """Adds files, and takes the rows on the replaced offsets out, in one snapshot. Returns the number of those rows.

        The catalog is asked once. It is to hold only if readers still see the snapshot and the columns that were read.
        Raises `LakeMoved` if it does not hold, and `Unreachable` if nobody knows.
        """
        prefix = prefix_of(self.location, arrival.batch_id, arrival.token)
        drops, keeps, withdrawn = self._without(replaced, f"{prefix}/kept-{try_uuid}")
        with self.answers():
            change = LakeTransaction(self._table)
            change.set_properties(property_of(self._pipeline, arrival))
            snapshot = change.update_snapshot(summary)
            producer = snapshot.overwrite(UUID(try_uuid)) if drops else snapshot.fast_append()
            producer.commit_uuid = UUID(try_uuid)
            for file in drops:
                producer.delete_data_file(file)
            for path in (*files, *keeps):
                producer.append_data_file(file_of_table(self._table.io, self._table.metadata, path))
            producer.commit()  # stages the snapshot. Nothing is sent yet
            if self.address.startswith(ON_DISK):
                written = (*producer._written_manifests, *producer._written_manifest_lists)  # noqa: SLF001 - it keeps them
                settle([*keeps, *written])
        unmoved = (*change._requirements, *_as_read(self._table.metadata))  # noqa: SLF001 - as above
        change._updates = in_order_of_time(change._updates, self._table.metadata)  # noqa: SLF001 - as above
        self._catalog.commit(self._pipeline, self._table, unmoved, change._updates)  # noqa: SLF001 - see OpenCatalog.commit
        return withdrawn

    def stale_column(self, files: Sequence[str]) -> str | None:
        """Returns a column of these files, written alike, that is not the table's any more. None if each of them is."""
        with self.answers():
            return next((stale_column(self._table.io, self._table.metadata, path) for path in files[:1]), None)

    def _aligned(self, arrival: Arrival, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows with the columns of the table. Those that only the table has stay empty."""
        names = set(rows.schema.names)
        try:
            arrays = [
                rows.column(field.name).cast(field.type) if field.name in names else pa.nulls(rows.num_rows, field.type)
                for field in self.arrow_schema
            ]
        except pa.ArrowException as error:
            raise BadData(
                f"batch {arrival.batch_id}: a value that no column of {self.name} holds: {str(error).splitlines()[0]}",
                next_command=f"lockstep batch {arrival.batch_id}",
            ) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _read_back(self, paths: Sequence[str]) -> dict[int, OffsetSums]:
        found: dict[int, OffsetSums] = {}
        with self.answers():
            for path in paths:
                with self._table.io.new_input(path).open() as source:
                    for rows in pq.ParquetFile(source).iter_batches(columns=["_stream", "_offset"]):
                        for stream, its in stream_sums(rows).items():
                            found[stream] = add_sums(found.get(stream), its)
        return found


def _as_read(metadata: Any) -> tuple[TableRequirement, ...]:
    """Returns the requirements that the table, its columns and its partitions are those that were read."""
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
    )
