"""Spark: reads exactly the ranges it is told, decodes, transforms and stages; what it returns are the winners' lines."""

from __future__ import annotations

import importlib.util
import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.adapters.postgres import staging_dsn
from lockstep.adapters.spark_errors import told
from lockstep.adapters.spark_ranges import groups, outcomes, probe, require_no_shuffle, with_end
from lockstep.adapters.spark_session import session
from lockstep.core.accounting import Digest, ManifestLine
from lockstep.core.columns import RESERVED, Column
from lockstep.core.errors import BadDefinition, Superseded
from lockstep.core.guarantees import EACH_STREAM, commit_unit
from lockstep.core.tasks import tasks_for
from lockstep.formats.json_format import decoded
from lockstep.staging.range_writer import SPARK_OUTCOMES, RangeWriter
from lockstep.staging.source import kept, source_lines
from lockstep.staging.tally import SPARK_LINES
from lockstep.staging.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.folder import PipelineFolder
    from lockstep.core.kafka_options import KafkaOptions
    from lockstep.core.staging import RangeOutcome, RangeTask, StageWork

NO_MOMENT_BEFORE, LAST_DAY = "1970-01-01T00:00:00Z", "9999-12-31T00:00:00Z"
FETCH_WAIT_MS = "10"  # a range's tail waits this long for bytes that will not come
SPARK_TYPES = {
    "string": "string",
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
    "binary": "binary",
}


class SparkEngine:
    """One pipeline's reading by the process's Spark session; nothing is started before the first read needs it."""

    def __init__(self, folder: PipelineFolder, kafka: str, dsn: str, kafka_options: KafkaOptions | None = None) -> None:
        self._folder = folder
        self._kafka = kafka
        self._dsn = dsn
        self._kafka_options = kafka_options.for_java() if kafka_options else {}
        self._group = ""
        self._cancelled = False

    def application_id(self) -> str | None:
        """How Spark's own pages call this run."""
        return session().sparkContext.applicationId

    def columns(self) -> tuple[Column, ...]:
        """The columns that reach the target; with a transform, found by running it on an empty frame.

        An attempt begins by asking for them: what cancelled the one before does not concern it.
        """
        self._group, self._cancelled = "", False
        declared = self._folder.pipeline.format.columns
        if self._folder.transform is None:
            return declared
        schema = ", ".join(
            ["_stream int", "_offset bigint", "_timestamp timestamp", "_key binary", "_headers string"]
            + [f"`{column.name}` {column.type}" for column in declared]
        )
        if commit_unit(self._folder.pipeline.guarantee) == EACH_STREAM:
            require_no_shuffle(with_end(self._transformed(probe(session(), schema))), self._where)
        frame = self._transformed(session().createDataFrame([], schema))
        for name in ("_stream", "_offset"):
            if name not in frame.columns:
                raise BadDefinition(f"{self._where}: the transform drops {name}, and every row answers for its record")
        return tuple(self._column(name, type_) for name, type_ in frame.dtypes if name not in RESERVED)

    def read(self, work: StageWork) -> tuple[ManifestLine, ...]:
        """Stages every visible record of the ranges; raises `BadData` when data or code is at fault."""
        froms = {item.stream_id: item.offsets.from_offset for item in work.ranges}
        dsn = staging_dsn(self._dsn, f"lockstep stage {work.batch_id}.{work.token}")
        writer = Writer(dsn, work.table, work.batch_id, work.token, froms, tuple(c.name for c in work.columns))
        slots = self._tasks(work)

        def staged() -> tuple[ManifestLine, ...]:
            records = decoded(self._records(work).coalesce(slots), self._folder.pipeline)
            lines = self._staged(records, writer, work)
            return lines if self._folder.transform is None else kept(source_lines(dsn, work, slots), lines)

        return self._done(work, staged)

    def commit_ranges(self, work: StageWork, task: RangeTask) -> tuple[RangeOutcome, ...]:
        """Reads the ranges in tasks that commit each by themselves; raises `BadData` when data or code is at fault."""
        names = tuple(column.name for column in work.columns)
        frames, run = [], secrets.token_hex(8)
        for slot, group in enumerate(groups(work.ranges, self._tasks(work))):
            part = replace(work, ranges=group)
            froms = {item.stream_id: item.offsets.from_offset for item in group}
            frames.append(self._committed(part, RangeWriter(task, run, slot, froms, names)))
        return self._done(work, lambda: outcomes(frames, self._where))

    def _tasks(self, work: StageWork) -> int:
        return tasks_for([item.offsets.span for item in work.ranges], session().sparkContext.defaultParallelism)

    def _done(self, work: StageWork, do: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Does it under a name by which it can be cancelled, and tells what went wrong in one line."""
        context = session().sparkContext
        group = f"{work.table}_{secrets.token_hex(4)}"  # one that is cancelled runs no job any more
        context.setJobGroup(group, f"{work.pipeline}: batch {work.batch_id}", interruptOnCancel=True)
        self._group = group
        self._require_wanted(work)  # after the group is named: who cancels from here on cancels the group
        try:
            return do()
        except PySparkException as error:
            raise self._told(error, work) from error
        except Exception as error:
            if type(error).__module__.startswith("py4j"):
                raise self._told(error, work) from error
            raise

    def _require_wanted(self, work: StageWork) -> None:
        if self._cancelled:  # before there was a job to cancel
            raise Superseded(f"batch {work.batch_id} was taken over before it was read")

    def cancel(self) -> None:
        """Stops the read that is under way, and one that has not begun yet."""
        self._cancelled = True
        if self._group:
            session().sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group)  # noqa: SLF001 - Python lacks it

    def _records(self, work: StageWork) -> DataFrame:
        """The ranges' raw records, coordinates and all: assigned partitions, numeric offsets, committed records only."""
        topic = work.ranges[0].offsets.topic_partition.topic
        parts = {item.offsets.topic_partition.partition: item for item in work.ranges}
        options = {f"kafka.{name}": value for name, value in self._kafka_options.items()} | {
            "kafka.bootstrap.servers": self._kafka,
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.wait.ms": FETCH_WAIT_MS,
            "assign": json.dumps({topic: sorted(parts)}),
            "startingOffsets": json.dumps({topic: {str(p): i.offsets.from_offset for p, i in parts.items()}}),
            "endingOffsets": json.dumps({topic: {str(p): i.offsets.until_offset for p, i in parts.items()}}),
            "failOnDataLoss": "true",
            "includeHeaders": "true",
        }
        raw = session().read.format("kafka").options(**options).load()
        streams = F.create_map(*[F.lit(value) for p, item in parts.items() for value in (p, item.stream_id)])
        headers = F.to_json(F.transform("headers", lambda h: F.struct(h["key"], F.base64(h["value"]).alias("value"))))
        size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
        return raw.select(
            F.element_at(streams, F.col("partition")).alias("_stream"),
            F.col("offset").alias("_offset"),
            F.lit(0).alias("_ordinal"),
            _moment(F.col("timestamp")).alias("_timestamp"),
            F.col("key").alias("_key"),
            F.col("value").alias("_value"),
            headers.alias("_headers"),
            size.alias("_bytes"),
        )

    def _staged(self, records: DataFrame, writer: Writer, work: StageWork) -> tuple[ManifestLine, ...]:
        if self._folder.transform is None:
            lines = _without_raw(records).mapInArrow(writer.whole, SPARK_LINES)
        else:
            lines = self._through(records, writer.intake, work).mapInArrow(writer.outlet, SPARK_LINES)
        return tuple(_line(row) for row in lines.collect())

    def _committed(self, work: StageWork, writer: RangeWriter) -> DataFrame:
        """What one task does with its group of ranges."""
        records = decoded(self._records(work), self._folder.pipeline)
        if self._folder.transform is None:
            return with_end(_without_raw(records)).mapInArrow(writer.whole, SPARK_OUTCOMES)
        return with_end(self._through(records, writer.intake, work)).mapInArrow(writer.outlet, SPARK_OUTCOMES)

    def _through(self, records: DataFrame, intake: Any, work: StageWork) -> DataFrame:
        """What the transform makes of the records that the intake lets pass, with the types that the target is to get."""
        aside = records.withColumn("_value", F.when(F.col("_reason").isNotNull(), F.col("_value")))
        hidden = ("_ordinal", "_deleted", "_reason", "_value", "_bytes")
        out = self._transformed(aside.mapInArrow(intake, aside.drop(*hidden).schema))
        reserved = {"_stream": "int", "_offset": "bigint"} | ({"_ordinal": "int"} if "_ordinal" in out.columns else {})
        casts = [F.col(name).cast(type_).alias(name) for name, type_ in reserved.items()]
        casts += [F.col(column.name).cast(column.type).alias(column.name) for column in work.columns]
        return out.select(*casts)

    def _transformed(self, records: DataFrame) -> DataFrame:
        spec = importlib.util.spec_from_file_location(
            f"pipelines.{self._folder.pipeline.name}.transform", self._folder.path / "transform.py"
        )
        if spec is None or spec.loader is None:
            raise BadDefinition(f"{self._where}: transform.py cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            function: Callable[[DataFrame], DataFrame] = module.transform
            made = function(records)
        except Exception as error:
            line = (str(error).strip().splitlines() or [""])[0]
            raise BadDefinition(f"{self._where}: transform.py fails: {type(error).__name__}: {line}") from error
        if not isinstance(made, DataFrame):
            raise BadDefinition(
                f"{self._where}: transform.py returns {type(made).__name__}, and must return a DataFrame"
            )
        return made

    def _column(self, name: str, type_: str) -> Column:
        known = type_ if type_.startswith("decimal") else SPARK_TYPES.get(type_)
        if known is None:
            raise BadDefinition(f"{self._where}: the transform's column {name} is {type_}; cast it, or use to_json")
        return Column(name, known)

    def _told(self, error: Exception, work: StageWork) -> Exception:
        """What the JVM's many lines come down to, as one of our own errors."""
        if self._cancelled:
            return Superseded(f"batch {work.batch_id} was taken over while it was being read")
        return told(error, self._where, work)

    @property
    def _where(self) -> str:
        return self._folder.pipeline.name


def _without_raw(records: DataFrame) -> DataFrame:
    """A record's bytes are kept of rejects only."""
    rejected = F.col("_reason").isNotNull()
    return records.withColumns({name: F.when(rejected, F.col(name)) for name in ("_key", "_value", "_headers")})


def _moment(timestamp: SparkColumn) -> SparkColumn:
    """A record's time; Kafka writes -1 for none, and what lies past Python's calendar is its last day."""
    at_most = F.least(timestamp, F.lit(LAST_DAY).cast("timestamp"))
    return F.when(timestamp >= F.lit(NO_MOMENT_BEFORE).cast("timestamp"), at_most)


def _line(row: Any) -> ManifestLine:
    fields = row.asDict()
    digest = Digest(fields["delivered"], int(fields.pop("digest_sum")), int(fields.pop("digest_squares")))
    return ManifestLine(**fields, digest=digest)
