"""Finds rows of offset ranges: by the bounds of files, in a scan, and among rows that were read. Finds odd deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysFalse, And, EqualTo, GreaterThanOrEqual, LessThan, Or
from pyiceberg.io.pyarrow import (
    _check_pyarrow_schema_compatible,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent

from lockstep.core.errors import Refusal
from lockstep.core.lake.files import are_all_replaced, holds_replaced_alone, is_touched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg import types

    from lockstep.core.lake.files import BoundsOfFiles, Replaced


BEFORE_SURROGATES = (
    "\ud7ff"  # its successor is no character, and pyiceberg takes it for one where it cuts an upper bound
)


def file_of_table(io: Any, metadata: Any, path: str) -> DataFile:
    """Describes a file of Parquet that is to be a table's, with the bounds of its columns.

    pyiceberg's own would give a column narrow bounds if Parquet keeps none for a part of it. Readers would skip rows.
    """
    source, schema = io.new_input(path), metadata.schema()
    with source.open() as opened:
        footer = pq.read_metadata(opened)
    _check_pyarrow_schema_compatible(schema, footer.schema.to_arrow_schema(), format_version=metadata.format_version)
    unbounded = {f"write.metadata.metrics.column.{name}": "counts" for name in _without_bounds(footer)}
    found = data_file_statistics_from_parquet_metadata(
        footer,
        compute_statistics_plan(schema, {**metadata.properties, **unbounded}),
        parquet_path_to_id_mapping(schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=found.partition(metadata.spec(), schema),
        file_size_in_bytes=len(source),
        spec_id=metadata.default_spec_id,
        **found.to_serialized_dict(),
    )


def stale_column(io: Any, metadata: Any, path: str) -> str | None:
    """Returns a column of a file that is not the table's any more, by name and id. None if each is."""
    ids = {field.name: str(field.field_id).encode() for field in metadata.schema().fields}
    with io.new_input(path).open() as opened:
        held = pq.read_schema(opened)
    return next((f.name for f in held if ids.get(f.name) != (f.metadata or {}).get(b"PARQUET:field_id")), None)


def _without_bounds(footer: pq.FileMetaData) -> set[str]:
    """Returns the columns that have values without bounds in some part. A text of more than 4,096 bytes has none."""
    found = set()
    for part in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(part.column, range(part.num_columns)):
            bounds = column.statistics
            empty = bounds is not None and bounds.null_count == part.num_rows
            if not empty and (bounds is None or not bounds.has_min_max or BEFORE_SURROGATES in str(bounds.max)):
                found.add(column.path_in_schema)
    return found


def bounds_of_files(file: Any, field: types.NestedField) -> tuple[int, int]:
    """Returns the least and the greatest value of a column of whole numbers. Without bounds it may be any."""
    kind = field.field_type
    found = [of.get(field.field_id) if of else None for of in (file.lower_bounds, file.upper_bounds)]
    low, high = (None if raw is None else from_bytes(kind, raw) for raw in found)
    return -(2**63) if low is None else low, 2**63 - 1 if high is None else high


def touched_files(
    tasks: Iterable[Any], fields: Sequence[types.NestedField], replaced: Sequence[Replaced], told: BoundsOfFiles
) -> Iterator[tuple[Any, bool]]:
    """Yields the files that may hold replaced rows, each with whether it holds no others.

    `fields` are those of stream and offset. `told` has what is known of some files by stream.
    """
    for task in tasks:
        bounds = [bounds_of_files(task.file, field) for field in fields]
        if is_touched(replaced, *bounds):
            alone = holds_replaced_alone(replaced, *bounds)
            yield task, alone or are_all_replaced(replaced, told.get(task.file.file_path, {}))


def equality_deletes(metadata: Any, io: Any) -> list[str]:
    """Returns the files of other writers that delete rows by value. pyiceberg can neither apply nor plan them."""
    snapshot = metadata.current_snapshot()
    deletes = [m for m in snapshot.manifests(io) if m.content == ManifestContent.DELETES] if snapshot else []
    files = [entry.data_file for manifest in deletes for entry in manifest.fetch_manifest_entry(io)]
    return [file.file_path for file in files if file.content == DataFileContent.EQUALITY_DELETES]


def refuse_equality_deletes(name: str, metadata: Any, io: Any) -> None:
    """Refuses deletes that pyiceberg cannot apply, by the name of their file."""
    catalog, _, table = name.partition(".")
    for path in equality_deletes(metadata, io):
        raise Refusal(
            f"{name}: {path} holds equality deletes, which cannot be applied here",
            next_command=f"in Spark: call {catalog}.system.rewrite_data_files('{table}', "
            "options => map('delete-file-threshold', '1'))",
        )


def within_ranges(ranges: Sequence[Replaced]) -> Any:
    """Returns the expression of a scan for rows of these ranges."""
    each = [
        And(EqualTo("_stream", r.stream), GreaterThanOrEqual("_offset", r.begin), LessThan("_offset", r.end))
        for r in ranges
    ]
    return Or(*each) if len(each) > 1 else each[0] if each else AlwaysFalse()


def any_of(replaced: Sequence[Replaced], rows: pa.Table) -> Any:
    """Returns, for each row, if it lies in one of the ranges."""
    found = pa.array([False] * rows.num_rows)
    for each in replaced:
        of_stream = pc.equal(rows["_stream"], each.stream)
        inside = pc.and_(pc.greater_equal(rows["_offset"], each.begin), pc.less(rows["_offset"], each.end))
        found = pc.or_(found, pc.and_(of_stream, inside))
    return found
