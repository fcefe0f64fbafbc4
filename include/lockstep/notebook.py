"""Reads a committed batch into a notebook: its rows as a pandas frame, its Kafka records as a Spark frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.adapters import folders
from lockstep.adapters.postgres import READER, transaction
from lockstep.context import systems
from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.pipeline.targets import WithTotals
from lockstep.core.states import BatchState
from lockstep.ledger.views import reading
from lockstep.targets.proof.of_batch import rows_of_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import pyarrow as pa
    from psycopg2.extensions import connection
    from pyspark.sql import DataFrame, SparkSession

    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.ledger.views.reading import Document

COLUMNS_OF_RECORDS = (
    *(("topic", "string"), ("partition", "int"), ("offset", "bigint"), ("timestamp", "timestamp")),
    *(("key", "binary"), ("value", "binary"), ("headers", "string")),
)


def rows(name: str, *, batch: int, table: str | None = None) -> pd.DataFrame:
    """Returns the rows that a committed batch wrote and that the target still has, in the log's order.

    `table` chooses one of several targets. In an upserted table, a row is the batch's until a later batch changes it.
    Raises `Refusal` if the batch is not a committed one of this pipeline.
    """
    import pandas as pd  # noqa: PLC0415 - half a second, and `records` needs none of it

    pipeline = folders.load(name).pipeline
    target = _target(pipeline, table)
    with systems.open_ledger() as conn:
        _committed(conn, name, batch)
        with transaction(conn, None) as cur:
            columns, found = rows_of_batch(cur, target, batch)
    return pd.DataFrame.from_records(found, columns=columns)


def records(spark: SparkSession, name: str, *, batch: int) -> DataFrame:
    """Returns the Kafka records that a committed batch read, as they are, in a frame whose tasks read them.

    The columns are topic, partition, offset, timestamp, key, value and headers, which are JSON. Fails when Kafka no longer
    holds an offset. Raises `Refusal` if the batch is not a committed one of this pipeline.
    """
    from lockstep.engine.kafka_ranges import KafkaRanges  # noqa: PLC0415 - `rows` needs none of it
    from lockstep.engine.spark.source import frame_of  # noqa: PLC0415 - as above

    with systems.open_ledger() as conn:
        found = _committed(conn, name, batch)["ranges"]
    ranges = [
        StreamRange(number, OffsetRange(TopicPartition(each["topic"], each["partition"]), *_bounds(each)))
        for number, each in enumerate(found)
    ]
    reader = KafkaRanges(systems.kafka(), systems.configured_kafka_options(), limits=None)

    def read(number: int) -> Iterator[pa.RecordBatch]:
        for raw in reader.records([ranges[number]]):
            yield raw.rename_columns([column.removeprefix("_") for column in raw.schema.names])

    return frame_of(spark, len(ranges), read, COLUMNS_OF_RECORDS, ", ".join(sorted({each["topic"] for each in found})))


def _bounds(range_: Document) -> tuple[int, int]:
    return range_["from_offset"], range_["until_offset"]


def _target(pipeline: Pipeline, table: str | None) -> Target:
    name, tables = pipeline.name, [target.table for target in pipeline.targets]
    if pipeline.store is not None:
        raise Refusal(
            f"{name}: its rows lie in another store, and are read there", next_command=f"lockstep batches {name}"
        )
    if table is None and len(tables) > 1:
        raise Refusal(f"{name} writes several tables: name one of {', '.join(tables)}")
    if table is not None and table not in tables:
        raise Refusal(f"{name} writes no table {table}; it writes {', '.join(tables)}")
    target = pipeline.targets[tables.index(table) if table else 0]
    if isinstance(target, WithTotals):
        raise Refusal(f"{name}: a row of totals is of many batches", next_command=f"lockstep batches {name}")
    return target


def _committed(conn: connection, name: str, batch: int) -> Document:
    with transaction(conn, READER) as cur:
        found: dict[str, Any] | None = reading.read_batch(cur, batch)
    if found is None or found["pipeline"] != name:
        raise Refusal(f"pipeline {name} has no batch {batch}", next_command=f"lockstep batches {name}")
    if found["state"] != BatchState.COMMITTED:
        raise Refusal(
            f"batch {batch} of {name} is {found['state']}, not committed", next_command=f"lockstep batch {batch}"
        )
    return found
