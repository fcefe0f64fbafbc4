"""Defines Lockstep's own columns of a record in one table, from the reader to the target."""

from __future__ import annotations

from dataclasses import dataclass

# A record with too many headers has their count in its `_bytes`: so many units, and its size. One that is not decoded, whose
# `_bytes` are the complement of its size, has the place of its reason in units.
HEADERS_UNIT = 2**32
LAST_STAMP = 253_402_214_400_000  # in milliseconds: Python's calendar ends with the year 9999


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """A column that Lockstep fills. `spark` and `postgres` are its types before staging and in it, empty where it is not.

    `read` ones come from the reader, the others of Spark's are the decoder's marks. `given` ones reach a transform.
    `raw` ones are kept while a transform runs if an expectation may quarantine a record.
    """

    name: str
    spark: str
    postgres: str
    read: bool = False
    given: bool = False
    raw: bool = False


# Every staging table begins with those that have a type of Postgres, and the decoded ones follow. `_task` is Spark's
# task attempt id: rows of tasks that are in no kept manifest are never published. `_ordinal` tells the rows of one record
# apart. Reason, key, value and headers are filled for rejects only, or for all records if one may be quarantined yet.
RECORD_COLUMNS = (
    RecordColumn("_stream", "int", "integer", read=True, given=True, raw=True),
    RecordColumn("_offset", "bigint", "bigint", read=True, given=True, raw=True),
    RecordColumn("_ordinal", "int", "integer", read=True),
    RecordColumn("_task", "", "bigint", raw=True),
    RecordColumn("_timestamp", "timestamp", "timestamptz", read=True, given=True, raw=True),
    RecordColumn("_deleted", "boolean", "boolean"),
    RecordColumn("_reason", "string", "text"),
    RecordColumn("_key", "binary", "bytea", read=True, given=True, raw=True),
    RecordColumn("_value", "binary", "bytea", read=True, raw=True),
    RecordColumn("_headers", "string", "text", read=True, given=True, raw=True),
    RecordColumn("_filtered", "boolean", ""),
    RecordColumn("_bytes", "bigint", "", read=True),
    RecordColumn("_topic", "string", "", read=True),
    RecordColumn("_partition", "int", "", read=True),
)
BATCH_COLUMN = ("_batch", "bigint")  # of a target alone
SOURCE_ORDER = (
    "_source_order"  # of change records: where the source's log has the change, in bytes that sort as it does
)
UNAVAILABLE = "_unavailable"  # of change records: the columns whose values a record does not have, as `doc,photo`

RESERVED = frozenset({*(column.name for column in RECORD_COLUMNS), BATCH_COLUMN[0]})
RESERVED_COLUMNS = tuple((column.name, column.postgres) for column in RECORD_COLUMNS if column.postgres)
RAW_COLUMNS = tuple((column.name, column.postgres) for column in RECORD_COLUMNS if column.raw)
RAW_NAMES = [name for name, _ in RAW_COLUMNS if name != "_task"]
READ_COLUMNS = tuple((column.name, column.spark) for column in RECORD_COLUMNS if column.read)
MARK_COLUMNS = tuple((column.name, column.spark) for column in RECORD_COLUMNS if column.spark and not column.read)
GIVEN_COLUMNS = tuple((column.name, column.spark) for column in RECORD_COLUMNS if column.given)
BYTES_COLUMNS = ("_key", "_value", "_headers")
NOT_STAGED = tuple(column.name for column in RECORD_COLUMNS if not column.postgres)
HIDDEN = tuple(column.name for column in RECORD_COLUMNS if column.spark and not column.given)  # from a transform

# They name a row of a batch. A target has the batch, too.
COORDINATE_COLUMNS = RESERVED_COLUMNS[:3]
COORDINATES = tuple(name for name, _ in COORDINATE_COLUMNS)
TARGET_COLUMNS = (*COORDINATE_COLUMNS, BATCH_COLUMN)
TARGET_COORDINATES = tuple(name for name, _ in TARGET_COLUMNS)
