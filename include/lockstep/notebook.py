"""Reads a committed batch into a notebook: its rows as a pandas frame, its Kafka records as a Spark frame."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lockstep.adapters import folders
from lockstep.adapters.postgres import READER, transaction
from lockstep.context import systems
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.targets import WithTotals
from lockstep.core.states import BatchState
from lockstep.ledger.views import reading
from lockstep.targets.proof.of_batch import rows_of_batch

if TYPE_CHECKING:
    import pandas as pd
    from psycopg2.extensions import connection
    from pyspark.sql import DataFrame, SparkSession

    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.ledger.views.reading import Document


def rows(name: str, *, batch: int, table: str | None = None) -> pd.DataFrame:
    """Returns the rows that a committed batch wrote and that still stand in the target, in the log's order.

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
    """Returns the Kafka records that a committed batch read, as Spark's source gives them.

    The columns are key, value, topic, partition, offset, timestamp, timestampType and headers. Fails when Kafka no longer
    holds an offset. Raises `Refusal` if the batch is not a committed one of this pipeline.
    """
    with systems.open_ledger() as conn:
        ranges = _committed(conn, name, batch)["ranges"]
    topics = {each["topic"] for each in ranges}
    options = {f"kafka.{option}": value for option, value in systems.configured_kafka_options().for_java().items()} | {
        "kafka.bootstrap.servers": systems.kafka(),
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({t: [each["partition"] for each in ranges if each["topic"] == t] for t in topics}),
        "startingOffsets": _offsets(ranges, "from_offset"),
        "endingOffsets": _offsets(ranges, "until_offset"),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
    return spark.read.format("kafka").options(**options).load()


def _offsets(ranges: list[Document], name: str) -> str:
    found: dict[str, dict[str, int]] = {}
    for each in ranges:
        found.setdefault(each["topic"], {})[str(each["partition"])] = each[name]
    return json.dumps(found)


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
