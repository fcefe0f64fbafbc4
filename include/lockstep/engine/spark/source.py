"""Gives records to Spark as a source of its own: its tasks read exactly the planned ranges."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lockstep.engine.plans import KAFKA
from lockstep.engine.spark import connect as spark_connect
from lockstep.engine.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.engine.part_reader import Intake, PartReader
    from lockstep.engine.transforms import Transforms

    ReadPart = Callable[[int], Iterator[pa.RecordBatch]]


class NumberedPart(InputPartition):
    """A part of a source, by its number. One task reads it."""

    def __init__(self, number: int) -> None:
        self.number = number


def frame_given(reader: PartReader, folder: PipelineFolder, transforms: Transforms, intake: Intake) -> DataFrame:
    """Returns a transform's input. The intake counts the records, and keeps rejects and deletions to itself."""
    pipeline = folder.pipeline
    topic = pipeline.topic if isinstance(pipeline.topic, str) else pipeline.name
    return frame_of(session(), len(reader.parts), partial(reader.given, intake), transforms.given_columns, topic)


def frame_of(
    spark: SparkSession, parts: int, read: ReadPart, columns: Sequence[tuple[str, str]], topic: str
) -> DataFrame:
    """Returns a frame of these columns and types, whose tasks read one part each. Executors get `read` by value."""
    # A server looks a source up by its name when a plan runs, and its session may have several of one topic.
    name = f"{KAFKA} {topic}" + (f" {secrets.token_hex(4)}" if spark_connect.is_wanted() else "")
    spark.dataSource.register(_source(parts, read, columns, name))
    return spark.read.format(name).load()


def _source(parts: int, read: ReadPart, columns: Sequence[tuple[str, str]], called: str) -> type[DataSource]:
    names = [name for name, _ in columns]

    class Reader(DataSourceReader):
        def partitions(self) -> list[NumberedPart]:
            return [NumberedPart(number) for number in range(parts)]

        def read(self, part: Any) -> Iterator[Any]:
            for batch in read(part.number):
                yield batch.select(names)  # Spark takes columns by their places

    class Records(DataSource):
        @classmethod
        def name(cls) -> str:
            return called

        def schema(self) -> str:
            return ", ".join(f"`{name}` {type_}" for name, type_ in columns)

        def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - as Spark calls it
            return Reader()

    return Records
