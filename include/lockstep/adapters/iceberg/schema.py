"""Makes the schema of an Iceberg table from a definition's columns, and says where an existing one does not fit."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg import types
from pyiceberg.exceptions import ValidationError
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from lockstep.adapters.iceberg.store import (
    configured_lake,
    file_system,
    folder_command,
    require_store,
    require_written,
)
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.pipeline.columns import digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem
    from pyiceberg.table import Table

    from lockstep.core.pipeline.columns import Column

ORIGIN_FIELDS = (("_stream", "int"), ("_offset", "bigint"), ("_ordinal", "int"), ("_batch", "bigint"))
# A replay finds files by these bounds, whatever the default of the table's metrics is.
METRICS = {f"write.metadata.metrics.column.{name}": "full" for name in ("_stream", "_offset", "_batch")}
ICEBERG_TYPES: dict[str, types.PrimitiveType] = {
    "string": types.StringType(),
    "boolean": types.BooleanType(),
    "smallint": types.IntegerType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "date": types.DateType(),
    "timestamp": types.TimestamptzType(),
    "binary": types.BinaryType(),
}
ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
}
POSTGRES_OF_ICEBERG = {
    "string": "text",
    "boolean": "boolean",
    "int": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "timestamptz": "timestamptz",
    "binary": "bytea",
}
ICEBERG_WIDER = {"int": ("long",), "float": ("double",)}


def make_table(location: str, columns: Sequence[Column]) -> str:
    """Writes the first metadata of an empty table with these columns. Returns its address, for the table's pointer."""
    spec, order = UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER
    metadata = new_table_metadata(new_schema(columns), spec, order, location, METRICS)
    address = f"{location}/metadata/00000-{metadata.table_uuid}.metadata.json"
    with store_answers(address):
        ToOutputFile.table_metadata(metadata, FileDoor().new_output(address))
        require_written(address, str(metadata.table_uuid))
    return address


class FileDoor(PyArrowFileIO):
    """pyiceberg's door to files, over the file systems of all files of the lake. Knows what was written through it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        """Returns pyiceberg's own for a folder, because it makes the folders of new files."""
        found: FileSystem = super()._initialize_fs(scheme, netloc) if scheme == "file" else file_system(scheme)
        return found

    def new_output(self, location: str) -> PyArrowFile:
        """Returns a file to write."""
        self.written.append(location)
        return super().new_output(location)


def written_by(table: Table) -> list[str]:
    """Returns the files that were written through the door of a table."""
    return table.io.written if isinstance(table.io, FileDoor) else []


def new_schema(columns: Sequence[Column]) -> Schema:
    """Returns the schema of a new table: where a row comes from, and these columns."""
    named = [*((name, type_, True) for name, type_ in ORIGIN_FIELDS), *((c.name, c.type, False) for c in columns)]
    return Schema(
        *(
            types.NestedField(place, name, _type(type_), required=required)
            for place, (name, type_, required) in enumerate(named, 1)
        )
    )


def misfit(metadata: Any, columns: Sequence[Column]) -> str | None:
    """Says why rows with these columns do not fit a table with this metadata, or None if they do."""
    if metadata.format_version != 2:  # noqa: PLR2004 - the version that every reader knows
        return f"its format version is {metadata.format_version}, and 2 is written here"
    if metadata.spec().fields:
        return f"it is partitioned by {metadata.spec().fields[0].name}, and tables without partitions are written here"
    held = {field.name: field for field in metadata.schema().fields}
    wanted = {**dict(ORIGIN_FIELDS), **{column.name: column.type for column in columns}}
    for name, type_ in wanted.items():
        if name not in held:
            return f"it has no column {name}, which takes {_type(type_)}"
        if not _holds(held[name].field_type, _type(type_)):
            return f"its column {name} is {held[name].field_type}, and {_type(type_)} is needed"
    return next(filter(None, (look(field) for look in (_required, _unknown) for field in held.values())), None)


def known_fields(table: str, metadata: Any) -> tuple[types.NestedField, ...]:
    """Returns the columns of a table. Raises `Refusal` for a required one of another writer, and for an unknown type."""
    found: tuple[types.NestedField, ...] = metadata.schema().fields
    for field in found:
        if why := _unknown(field) or _required(field):
            raise Refusal(
                f"{table}: {why}", next_command=f"alter table {table} drop column {field.name}, by Spark or Trino"
            )
    return found


def _required(field: types.NestedField) -> str | None:
    if field.required and field.name not in dict(ORIGIN_FIELDS):
        return f"its column {field.name} is required, and a record may leave it empty"
    return None


def _unknown(field: types.NestedField) -> str | None:
    if isinstance(field.field_type, types.DecimalType) or str(field.field_type) in ARROW:
        return None
    return f"its column {field.name} is {field.field_type}, a type that is neither read nor written here"


def _type(type_: str) -> types.PrimitiveType:
    return ICEBERG_TYPES.get(type_) or types.DecimalType(*digits(type_))


def arrow_of_field(type_: types.IcebergType) -> pa.DataType:
    """Returns the type of a column in memory and in files."""
    if isinstance(type_, types.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    return ARROW[str(type_)]


def arrow_schema_of(table: str, metadata: Any) -> pa.Schema:
    """Returns the columns of a table as files have them, with the field ids of the table."""
    return pa.schema(
        pa.field(
            field.name,
            arrow_of_field(field.field_type),
            not field.required,
            {"PARQUET:field_id": str(field.field_id)},
        )
        for field in known_fields(table, metadata)
    )


def postgres_type(type_: types.IcebergType) -> str:
    """Returns the type of Postgres that holds a column's values exactly."""
    if isinstance(type_, types.DecimalType):
        return f"numeric({type_.precision},{type_.scale})"
    return POSTGRES_OF_ICEBERG[str(type_)]


def _holds(held: types.IcebergType, wanted: types.IcebergType) -> bool:
    if isinstance(held, types.DecimalType) and isinstance(wanted, types.DecimalType):
        return bool(held.scale == wanted.scale and held.precision >= wanted.precision)
    return bool(held == wanted) or str(held) in ICEBERG_WIDER.get(str(wanted), ())


@contextmanager
def store_answers(what: str) -> Iterator[None]:
    """Turns a store's refusals into one line. `what` begins with the address, or with the table and its address."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError):
            require_store(what, error)
        said = configured_lake().hidden(str(error).splitlines()[0])
        if isinstance(error, FileNotFoundError):
            raise Refusal(f"{what}: a file is missing: {said}", next_command="lockstep doctor") from None
        raise Unreachable(f"{what}: {said}", next_command=folder_command(error)) from None
    except (ValueError, EOFError, ValidationError) as error:  # the last but one of an empty manifest
        why = str(error).splitlines()[0]
        raise Refusal(f"{what}: this is no metadata of Iceberg: {why}", next_command="lockstep doctor") from None
