"""Reads exactly the given ranges with Spark, decodes, transforms and stages them. Returns the winners' lines."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from lockstep.adapters import spark_short
from lockstep.adapters.kafka_ranges import KafkaRanges
from lockstep.adapters.postgres import staging_dsn
from lockstep.adapters.spark_errors import found_away, told
from lockstep.adapters.spark_isolation import isolating, newest_task, trial
from lockstep.adapters.spark_jobs import jobs
from lockstep.adapters.spark_once import read_once
from lockstep.adapters.spark_ranges import groups, outcomes, probe, require_no_shuffle, with_end
from lockstep.adapters.spark_rows import taken_in, typed, with_bytes
from lockstep.adapters.spark_session import session
from lockstep.adapters.spark_source import records_of
from lockstep.core.errors import ReaderDied, Superseded
from lockstep.core.guarantees import EACH_STREAM, commit_unit
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.staging import Run
from lockstep.core.tasks import A_COMMIT, tasks_for
from lockstep.formats import decoded
from lockstep.staging.plans import reads, unrepeatable
from lockstep.staging.range_writer import SPARK_OUTCOMES, RangeWriter
from lockstep.staging.source import kept, source_lines
from lockstep.staging.tally import SPARK_LINES, lines_of
from lockstep.staging.transforms import NAME as TRANSFORM
from lockstep.staging.transforms import Transforms
from lockstep.staging.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from pyspark.sql import DataFrame

    from lockstep.core.accounting import ManifestLine
    from lockstep.core.columns import Column
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.offsets import StreamRange
    from lockstep.core.registry import Registry
    from lockstep.core.staging import RangeOutcome, RangeTask, StageWork

    Made = TypeVar("Made")


class SparkEngine:
    """The reader of one pipeline over the process's Spark session. Starts nothing before the first read."""

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
        self._reader = KafkaRanges(kafka, kafka_options or KafkaOptions(), folder.pipeline.record_limits.bytes)
        self._group = ""
        self._cancelled = False
        self._transforms = Transforms(folder)

    def application_id(self, _work: StageWork) -> str | None:
        """Returns the run's name on Spark's own pages."""
        with found_away(self._where):
            return jobs().application_id()

    def columns(self, place: int = 0) -> tuple[Column, ...]:
        """Returns the target's columns at this place. With a transform, runs it on an empty frame.

        An attempt begins with the first target's columns. That call clears an earlier cancel.
        """
        if not place:
            self._group, self._cancelled = "", False
            self._transforms = Transforms(self._folder)
        if self._folder.is_straight:
            return self._folder.pipeline.columns
        with found_away(self._where):
            return self._found(place)

    def _found(self, place: int) -> tuple[Column, ...]:
        target = self._folder.pipeline.targets[place]
        if commit_unit(self._folder.pipeline.guarantee) == EACH_STREAM:
            records = probe(session(), self._transforms.given)
            require_no_shuffle(with_end(self._transforms.applied(target, records, Run(self._where))), self._where)
        return self._transforms.columns(target, session())

    def unrepeatable(self) -> dict[str, tuple[str, ...]]:
        """Returns the non-deterministic expressions of each target's function, by its plan: clock, random, host."""
        found: dict[str, tuple[str, ...]] = {}
        for target in self._folder.pipeline.targets:
            if self._transforms.function(target) is not None:
                name = target.transform or TRANSFORM
                found[name] = unrepeatable(self._transforms.on_nothing(target, session()))
        return found

    def read(self, work: StageWork) -> tuple[ManifestLine, ...]:
        """Stages every visible record of the ranges. Raises `BadData` if data or code is at fault."""
        dsn = staging_dsn(self._dsn, work.stager)
        tables = [(table, tuple(column.name for column in columns)) for table, columns in work.tables]
        tombs = tuple(each for each, deletes in zip(tables, self._deleting(), strict=True) if deletes)
        beside = work.raw_table if self._folder.quarantines and not self._folder.is_straight else None
        writer = Writer(dsn, work.table, work.batch_id, work.token, work.from_offsets, tables[0][1], tombs, beside)

        def staged(work: StageWork) -> tuple[ManifestLine, ...]:
            slots = self._tasks(work)
            if work.after_task is not None:
                return self._staged(self._decoded(work, slots), writer, work, slots)
            parts = groups(work.ranges, slots)
            lines, left = spark_short.staged(parts, self._folder, self._reader.records, writer)
            if not left:
                return lines
            raw = spark_short.shortened(left, self._folder, self._reader.records)
            records = self._decoded(work, slots) if raw is None else self._formed(raw)
            return (*lines, *self._staged(records, writer, work, slots))

        return self._done(work, staged)

    def commit_ranges(self, work: StageWork, task: RangeTask) -> tuple[RangeOutcome, ...]:
        """Reads the ranges in tasks that commit each by itself. Raises `BadData` if data or code is at fault."""
        names = tuple(column.name for column in work.columns)
        run = secrets.token_hex(8)

        def writer_of(part: StageWork) -> RangeWriter:
            return RangeWriter(task, run, part.from_offsets, names)

        def long(work: StageWork, parts: Sequence[tuple[StreamRange, ...]]) -> tuple[RangeOutcome, ...]:
            works = [replace(work, ranges=part) for part in parts]
            return outcomes([self._committed(part, writer_of(part)) for part in works], len(parts), self._where)

        def committed(work: StageWork) -> tuple[RangeOutcome, ...]:
            parts = groups(work.ranges, self._tasks(work, A_COMMIT))
            if work.after_task is not None:
                return long(work, parts)
            done, left = spark_short.committed(parts, self._folder, self._reader.records, writer_of(work))
            if not left:
                return done
            if (raw := spark_short.shortened(left, self._folder, self._reader.records, says_end=True)) is None:
                return (*done, *long(work, left))
            records = with_bytes(self._formed(raw), self._folder)
            frame = records.mapInArrow(writer_of(work).whole, SPARK_OUTCOMES)
            return (*done, *outcomes([frame], len(left), self._where))

        return self._done(work, committed)

    def _dies(self, work: StageWork) -> bool:
        """Returns True if a task dies that reads and decodes these records. Keeps no rows."""

        def tried() -> None:
            trial(self._decoded(work, self._tasks(work)), self._folder, self._transforms, work)

        try:
            self._asked(work, tried)
        except ReaderDied:
            return True
        return False

    def _tasks(self, work: StageWork, per_range: int = 0) -> int:
        return tasks_for([item.offsets.span + per_range for item in work.ranges], jobs().slots)

    def _decoded(self, work: StageWork, tasks: int | None = None) -> DataFrame:
        """Returns the records, read by Spark's source and decoded."""
        raw = records_of(work, self._kafka, self._kafka_options, self._folder.pipeline.record_limits.bytes)
        return self._formed(raw.coalesce(tasks) if tasks else raw)

    def _formed(self, raw: DataFrame) -> DataFrame:
        return decoded(raw, self._folder.pipeline, decode=self._folder.decode, registry=self._registry)

    def _done(self, work: StageWork, do: Callable[[StageWork], Made]) -> Made:
        """Runs `do`, without the records that are proved to kill their reader."""
        newest = partial(self._asked, work, newest_task)
        return isolating(work, lambda its: self._asked(its, partial(do, its)), self._dies, newest)

    def _asked(self, work: StageWork, do: Callable[[], Made]) -> Made:
        """Runs `do` under a name that can be cancelled. Turns Spark's errors into one line."""
        group = f"{work.table}_{secrets.token_hex(4)}"  # one that is cancelled runs no job any more
        jobs().begin(group, f"{work.pipeline}: batch {work.batch_id}")
        self._group = group
        self._require_wanted(work)  # after the group is named: a cancel from here on cancels the group
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
        """Stops the current read, and one that has not begun yet."""
        self._cancelled = True
        if self._group:
            jobs().cancel(self._group)

    def _staged(self, records: DataFrame, writer: Writer, work: StageWork, slots: int) -> tuple[ManifestLine, ...]:
        if self._folder.is_straight:
            return lines_of(with_bytes(records, self._folder).mapInArrow(writer.whole, SPARK_LINES))
        accepted = taken_in(records, self._folder, writer.intake)
        outs = [self._transforms.applied(target, accepted, work.run) for target in self._folder.pipeline.targets]
        if sum(map(reads, outs)) == 1:
            lines = lines_of(typed(outs[0], work.columns).mapInArrow(writer.outlet, SPARK_LINES))
            return kept(source_lines(writer.dsn, work, slots), lines)
        return read_once(accepted, outs, writer, work, slots, self._deleting())

    def _committed(self, work: StageWork, writer: RangeWriter) -> DataFrame:
        """Returns the plan of one task with its group of ranges."""
        records = self._decoded(work)
        if self._folder.is_straight:
            return with_end(with_bytes(records, self._folder)).mapInArrow(writer.whole, SPARK_OUTCOMES)
        accepted = taken_in(records, self._folder, writer.intake)
        out = self._transforms.applied(self._folder.pipeline.first, accepted, work.run)
        return with_end(typed(out, work.columns)).mapInArrow(writer.outlet, SPARK_OUTCOMES)

    def _deleting(self) -> tuple[int, ...]:
        """Returns, for each target, the number of rows of a tombstone: 1 or 0."""
        pipeline = self._folder.pipeline
        return tuple(int(target in pipeline.tombstone_targets) for target in pipeline.targets)

    def _told(self, error: Exception, work: StageWork) -> Exception:
        """Converts the JVM's many lines to one of our own errors."""
        if self._cancelled:
            return Superseded(f"batch {work.batch_id} was taken over while it was being read")
        return told(error, self._where, work)

    @property
    def _where(self) -> str:
        return self._folder.pipeline.name
