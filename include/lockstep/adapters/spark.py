"""Spark: reads exactly the ranges it is told, decodes, transforms and stages; what it returns are the winners' lines."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.adapters.postgres import staging_dsn
from lockstep.adapters.spark_session import session
from lockstep.core.accounting import Digest, ManifestLine
from lockstep.core.errors import BadData, Refusal, Superseded, Unreachable, said_in
from lockstep.core.tasks import tasks_for
from lockstep.formats import decoded
from lockstep.staging.plans import cuts, reads, unrepeatable
from lockstep.staging.source import kept, source_lines
from lockstep.staging.tally import SPARK_LINES
from lockstep.staging.transforms import NAME as TRANSFORM
from lockstep.staging.transforms import Transforms
from lockstep.staging.writer import Writer

if TYPE_CHECKING:
    from lockstep.core.columns import Column
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.kafka_options import KafkaOptions
    from lockstep.core.registry import Registry
    from lockstep.core.staging import StageWork

NO_MOMENT_BEFORE, LAST_DAY = "1970-01-01T00:00:00Z", "9999-12-31T00:00:00Z"
FETCH_WAIT_MS = "10"  # a range's tail waits this long for bytes that will not come
# What an error names when an outside system was away or did not let us in: no fault of data or code.
AWAY = (
    "ConnectionError",
    "KAFKA_DATA_LOSS",
    "OffsetOutOfRange",
    "TimeoutException",
    "Disconnect",
    "AuthenticationException",
    "AuthorizationException",
    "SSLHandshakeException",
)


class SparkEngine:
    """One pipeline's reading by the process's Spark session; nothing is started before the first read needs it."""

    def __init__(
        self,
        folder: PipelineFolder,
        kafka: str,
        dsn: str,
        kafka_options: KafkaOptions | None = None,
        registry: Registry | None = None,
    ) -> None:
        self._folder = folder
        self._registry = registry
        self._kafka = kafka
        self._dsn = dsn
        self._kafka_options = kafka_options.for_java() if kafka_options else {}
        self._group = ""
        self._cancelled = False
        self._transforms = Transforms(folder)

    def application_id(self) -> str | None:
        """How Spark's own pages call this run."""
        return session().sparkContext.applicationId

    def columns(self, place: int = 0) -> tuple[Column, ...]:
        """The columns that reach the target at this place; with a transform, found by running it on an empty frame.

        An attempt begins by asking for the first target's: what cancelled the one before does not concern it.
        """
        if not place:
            self._group, self._cancelled = "", False
            self._transforms = Transforms(self._folder)
        if self._transforms.straight:
            return self._folder.pipeline.columns
        return self._transforms.columns(self._folder.pipeline.targets[place], session())

    def unrepeatable(self) -> dict[str, tuple[str, ...]]:
        """What each target's function takes from the clock, from chance or from where it runs, as its plan tells."""
        found: dict[str, tuple[str, ...]] = {}
        for target in self._folder.pipeline.targets:
            if self._transforms.function(target) is not None:
                name = target.transform or TRANSFORM
                found[name] = unrepeatable(self._transforms.on_nothing(target, session()))
        return found

    def read(self, work: StageWork) -> tuple[ManifestLine, ...]:
        """Stages every visible record of the ranges; raises `BadData` when data or code is at fault."""
        froms = {item.stream_id: item.offsets.from_offset for item in work.ranges}
        dsn = staging_dsn(self._dsn, f"lockstep stage {work.batch_id}.{work.token}")
        tables = [(table, tuple(column.name for column in columns)) for table, columns in work.tables]
        tombs = tuple(each for each, deletes in zip(tables, self._deleting(), strict=True) if deletes)
        beside = work.raw_table if self._folder.quarantines and not self._transforms.straight else None
        writer = Writer(dsn, work.table, work.batch_id, work.token, froms, tables[0][1], tombs, beside)
        slots = tasks_for([item.offsets.span for item in work.ranges], session().sparkContext.defaultParallelism)
        context = session().sparkContext
        group = f"{work.table}_{secrets.token_hex(4)}"  # one that is cancelled runs no job any more
        context.setJobGroup(group, f"{work.pipeline}: batch {work.batch_id}", interruptOnCancel=True)
        self._group = group
        self._require_wanted(work)  # after the group is named: who cancels from here on cancels the group
        try:
            raw = self._records(work).coalesce(slots)
            records = decoded(raw, self._folder.pipeline, decode=self._folder.decode, registry=self._registry)
            return self._staged(records, writer, work, slots)
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
            F.col("partition").alias("_partition"),
        )

    def _staged(self, records: DataFrame, writer: Writer, work: StageWork, slots: int) -> tuple[ManifestLine, ...]:
        # Bytes are staged for rejects only, unless an expectation may yet put a record aside.
        needed = F.lit(self._folder.quarantines) | F.col("_reason").isNotNull()
        raw = {name: F.when(needed, F.col(name)) for name in ("_key", "_value", "_headers")}
        if self._transforms.straight:
            return _lines(records.withColumns(raw).mapInArrow(writer.whole, SPARK_LINES))
        aside = records.withColumn("_value", raw["_value"])
        hidden = ("_ordinal", "_deleted", "_reason", "_value", "_bytes", "_filtered")
        accepted = aside.mapInArrow(writer.intake, aside.drop(*hidden).schema)
        outs = [self._transforms.applied(target, accepted, work.run) for target in self._folder.pipeline.targets]
        if sum(map(reads, outs)) == 1:
            lines = _lines(_outlet(outs[0], writer, work, 0))
            return kept(source_lines(writer.dsn, work, slots), lines)
        return self._read_once(accepted, outs, writer, work, slots)

    def _read_once(
        self, accepted: DataFrame, outs: list[DataFrame], writer: Writer, work: StageWork, slots: int
    ) -> tuple[ManifestLine, ...]:
        """The way of records that are used several times, by their targets or within one transform.

        They are read from the log before anything is made of them and kept meanwhile, so that nobody reads it twice.
        """
        if what := next(filter(None, map(cuts, outs)), None):
            raise BadData(
                f"{self._where}: a transform must not use {what}: the records that it leaves are like lost ones",
                next_command=f"lockstep check {self._where}",
            )
        accepted.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            accepted.write.format("noop").mode("overwrite").save()
            source = source_lines(writer.dsn, work, slots, self._deleting())
            outlets = [_outlet(out, writer, work, place) for place, out in enumerate(outs)]
            return kept(source, _lines(reduce(DataFrame.unionAll, outlets), len(outs)))
        finally:
            accepted.unpersist()

    def _deleting(self) -> tuple[int, ...]:
        """For each target, how many of its rows a tombstone is."""
        pipeline = self._folder.pipeline
        return tuple(int(target in pipeline.tombstone_targets) for target in pipeline.targets)

    def _told(self, error: Exception, work: StageWork) -> Exception:
        """What the JVM's many lines come down to, as one of our own errors."""
        if self._cancelled:
            return Superseded(f"batch {work.batch_id} was taken over while it was being read")
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        if any("Failed to find data source: kafka" in line for line in lines):
            return Refusal(f"{self._where}: Spark was started without its Kafka connector", next_command="make jars")
        if said := next(filter(None, map(said_in, lines)), None):
            return said
        away = next((line for line in lines if any(kind in line for kind in AWAY)), None)
        if away:
            return Unreachable(f"{self._where}: batch {work.batch_id} could not be read: {away[:300]}")
        if any("ArithmeticException: long overflow" in line for line in lines):
            ranges = ", ".join(str(item.offsets) for item in work.ranges)
            return BadData(
                f"{self._where}: a record in {ranges} cannot be read by Spark: its timestamp lies past the year 294246",
                next_command=f"lockstep skip {self._where} --to PARTITION:OFFSET --reason ...",
            )
        python = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "JVM ", "^"))]
        cause = next(
            (line for line in reversed(python) if "Error" in line or "Exception" in line), (python or ["?"])[0]
        )
        return BadData(f"{self._where}: batch {work.batch_id} could not be staged: {cause[:300]}")

    @property
    def _where(self) -> str:
        return self._folder.pipeline.name


def _moment(timestamp: SparkColumn) -> SparkColumn:
    """A record's time; Kafka writes -1 for none, and what lies past Python's calendar is its last day."""
    at_most = F.least(timestamp, F.lit(LAST_DAY).cast("timestamp"))
    return F.when(timestamp >= F.lit(NO_MOMENT_BEFORE).cast("timestamp"), at_most)


def _outlet(out: DataFrame, writer: Writer, work: StageWork, place: int) -> DataFrame:
    """The lines of the tasks that stage what one target is to get, each with the target's place."""
    table, columns = work.tables[place]
    reserved = {"_stream": "int", "_offset": "bigint"} | ({"_ordinal": "int"} if "_ordinal" in out.columns else {})
    casts = [F.col(name).cast(type_).alias(name) for name, type_ in reserved.items()]
    casts += [F.col(column.name).cast(column.type).alias(column.name) for column in columns]
    lines = out.select(*casts).mapInArrow(replace(writer, table=table).outlet, SPARK_LINES)
    return lines.withColumn("place", F.lit(place))


def _lines(frame: DataFrame, targets: int = 1) -> tuple[ManifestLine, ...]:
    return tuple(_line(row.asDict(), targets) for row in frame.collect())


def _line(fields: dict[str, Any], targets: int) -> ManifestLine:
    place = fields.pop("place", 0)
    digest = Digest(fields["delivered"], int(fields.pop("digest_sum")), int(fields.pop("digest_squares")))
    rows_of = tuple(fields["rows"] if each == place else 0 for each in range(targets)) if targets > 1 else ()
    return ManifestLine(**fields, digest=digest, rows_of=rows_of)
