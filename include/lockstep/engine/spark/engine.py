"""Reads exactly the given ranges with Spark, decodes, transforms and stages them. Returns the winners' lines."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lockstep.adapters.connection.dsn import staging_dsn
from lockstep.core.errors import ReaderDied, Superseded
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.pipeline.guarantees import commit_unit
from lockstep.core.planning.routes import Route, Way, route
from lockstep.core.planning.tasks import A_COMMIT, tasks_for
from lockstep.core.staging import Run
from lockstep.core.states import CommitUnit
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.engine.plans import reads, unrepeatable
from lockstep.engine.reading import reader_of
from lockstep.engine.sinks.range_writer import RangeWriter
from lockstep.engine.sinks.tally import lines_of
from lockstep.engine.sinks.task_writer import deleting, writer_of
from lockstep.engine.sinks.writer import Writer
from lockstep.engine.source import kept_lines, source_lines
from lockstep.engine.spark import short as spark_short
from lockstep.engine.spark.errors import as_our_error, found_away, is_interrupt, is_of_spark
from lockstep.engine.spark.isolation import in_trial, isolating, newest_task, trial
from lockstep.engine.spark.jobs import jobs
from lockstep.engine.spark.once import read_once
from lockstep.engine.spark.ranges import collected, even_parts, groups, probe, require_no_shuffle, with_end
from lockstep.engine.spark.rows import in_spark, taken_in, typed, with_bytes
from lockstep.engine.spark.session import session
from lockstep.engine.spark.source import records_given, records_of
from lockstep.engine.transforms import TRANSFORM_NAME, Transforms
from lockstep.formats import decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from lockstep.core.engine import Sink
    from lockstep.core.figures import Application, Figures
    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.core.registry import Registry
    from lockstep.core.staging import StageWork
    from lockstep.engine.kafka_sample import SampleRanges
    from lockstep.engine.sinks.task_writer import TaskWriter

_Reported = TypeVar("_Reported")


class SparkEngine:
    """The reader of one pipeline, or of a `sample`, over the process's Spark session. Starts nothing before a read."""

    def __init__(
        self,
        folder: PipelineFolder,
        kafka: str,
        dsn: str,
        kafka_options: KafkaOptions | None = None,
        registry: Registry | None = None,
        sample: SampleRanges | None = None,
        stager_dsn: str | None = None,
    ) -> None:
        self._folder, self._registry, self._sample = folder, registry, sample
        self._dsn, self._stager_dsn = dsn, stager_dsn
        self._kafka, self._kafka_options = kafka, kafka_options.for_java() if kafka_options else {}
        self._reader = sample or KafkaRanges(kafka, kafka_options or KafkaOptions(), folder.pipeline.record_limits)
        self._group, self._cancelled = "", False
        self._transforms = Transforms(folder)

    def route(self, ranges: Sequence[StreamRange], *, died: bool = False) -> Route:
        """Returns the way of a batch with these ranges. It leads through Spark, whatever their size."""
        return route(self._folder, ranges, max_offsets=0, died=died)

    def application(self, _work: StageWork) -> Application | None:
        """Returns the run's name and addresses on Spark's own pages."""
        with found_away(self._where):
            return jobs().application()

    def figures(self, work: StageWork) -> Figures | None:
        """Returns what Spark says of the jobs of this attempt, or None if it ran none."""
        return jobs().figures(work.table)

    def columns(self, place: int = 0) -> tuple[Column, ...]:
        """Returns the target's columns at this place. With a transform, runs it on an empty frame.

        An attempt begins with the first target's columns. That call clears an earlier cancel.
        """
        if not place:
            self._group, self._cancelled = "", False
            self._transforms = Transforms(self._folder)
        if self._folder.decodes_to_rows:
            return self._folder.pipeline.staged_columns
        with found_away(self._where):
            return self._found(place)

    def _found(self, place: int) -> tuple[Column, ...]:
        target = self._folder.pipeline.targets[place]
        if commit_unit(self._folder.pipeline.guarantee) == CommitUnit.STREAM:
            records = probe(session(), self._transforms.given)
            require_no_shuffle(with_end(self._transforms.applied(target, records, Run(self._where))), self._where)
        return self._transforms.columns(target, session())

    def unrepeatable(self) -> dict[str, tuple[str, ...]]:
        """Returns the non-deterministic expressions of each target's function, by its plan: clock, random, host."""
        found: dict[str, tuple[str, ...]] = {}
        for target in self._folder.pipeline.targets:
            if self._transforms.function(target) is not None:
                name = target.transform or TRANSFORM_NAME
                found[name] = unrepeatable(self._transforms.on_nothing(target, session()))
        return found

    def read(self, work: StageWork, sink: Sink[_Reported]) -> tuple[_Reported, ...]:
        """Reads every visible record of the ranges into the sink. Raises `BadData` if data or code is at fault."""
        writer = writer_of(sink, work, self._folder, self._dsn, self._stager_dsn)

        def written(work: StageWork) -> tuple[Any, ...]:
            spark_short.require_way(writer, self._where, is_their_own=bool(self._stager_dsn))
            commits, is_long = isinstance(writer, RangeWriter), self._is_long(work)
            may_cut = writer.may_cut and not is_long and not work.archived  # each piece would read the whole file
            tasks = self._tasks(work, A_COMMIT if commits else 0, may_cut=may_cut)
            if is_long:
                return self._through_source(work, tasks, writer)
            parts, read = even_parts(work.ranges, tasks, may_cut=may_cut), self._reading(work).records
            return spark_short.written(parts, self._folder, read, writer, self._registry)

        return self._done(work, written)

    def _through_source(self, work: StageWork, tasks: int, writer: TaskWriter) -> tuple[Any, ...]:
        """Writes records that Spark's own source reads."""
        if isinstance(writer, Writer):
            return self._staged(work, writer, tasks)
        works = [replace(work, ranges=part) for part in groups(work.ranges, tasks)]
        frames = [self._committed(each, replace(writer, from_offsets=each.from_offsets)) for each in works]
        return writer.reports(collected(frames, self._where), len(works), self._where)

    def _is_long(self, work: StageWork) -> bool:
        return self.route(work.ranges, died=work.after_task is not None).way is Way.SPARK

    def _death(self, work: StageWork) -> ReaderDied | None:
        """Returns the death of a task that reads and decodes these records. Keeps no rows."""

        def tried() -> None:
            folder = in_trial(self._folder, work)
            trial(self._decoded(work, self._tasks(work), folder), folder, Transforms(folder), work)

        try:
            self._asked(work, tried)
        except ReaderDied as died:
            return died
        return None

    def _tasks(self, work: StageWork, per_range: int = 0, *, may_cut: bool = False) -> int:
        return tasks_for([item.offsets.span + per_range for item in work.ranges], jobs().slots, may_cut=may_cut)

    def _decoded(self, work: StageWork, tasks: int | None = None, folder: PipelineFolder | None = None) -> DataFrame:
        """Returns the records, read by Spark's source and decoded. Ranges that begin in archived files have our reader."""
        if self._sample is not None:
            return self._formed(records_given(work, self._sample.hiding(work).records), folder)
        if work.archived:
            return self._formed(records_given(work, self._reading(work).records), folder)
        pipeline = self._folder.pipeline
        named = pipeline.envelope is not None and pipeline.envelope.topic is not None
        raw = records_of(work, self._kafka, self._kafka_options, pipeline.record_limits, names_topic=named)
        return self._formed(raw.coalesce(tasks) if tasks else raw, folder)

    def _reading(self, work: StageWork) -> KafkaRanges:
        return reader_of(work, self._reader, self._folder.pipeline.archive)

    def _formed(self, raw: DataFrame, folder: PipelineFolder | None = None) -> DataFrame:
        return decoded(raw, folder or self._folder, self._registry)

    def _done(self, work: StageWork, do: Callable[[StageWork], _Reported]) -> _Reported:
        """Runs `do`, without the records that are proved to kill their reader."""
        newest = partial(self._asked, work, newest_task)
        return isolating(work, lambda its: self._asked(its, partial(do, its)), self._death, newest)

    def _asked(self, work: StageWork, do: Callable[[], _Reported]) -> _Reported:
        """Runs `do` under a name that can be cancelled. Turns Spark's errors into one line."""
        group = f"{work.table}_{secrets.token_hex(4)}"  # one that is cancelled runs no job any more
        jobs().begin(group, f"{work.pipeline}: batch {work.batch_id}", work.table)
        self._group = group
        self._require_wanted(work)  # after the group is named: a cancel from here on cancels the group
        try:
            return do()
        except Exception as error:
            if is_of_spark(error):
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

    def _staged(self, work: StageWork, writer: Writer, slots: int) -> tuple[ManifestLine, ...]:
        records = self._decoded(work, slots)
        if self._folder.decodes_to_rows:
            staged = with_bytes(records, self._folder).mapInArrow(writer.whole, in_spark(writer.schema))
            return lines_of(staged, writer.targets)
        accepted = taken_in(records, self._folder, writer.intake)
        source = partial(source_lines, staging_dsn(self._dsn, work.stager), work, slots)
        outs = [self._transforms.applied(target, accepted, work.run) for target in self._folder.pipeline.targets]
        if sum(map(reads, outs)) == 1:
            lines = lines_of(typed(outs[0], work.columns).mapInArrow(writer.outlet, in_spark(writer.schema)))
            return kept_lines(source(), lines)
        return read_once(accepted, outs, writer, work, source, deleting(self._folder.pipeline))

    def _committed(self, work: StageWork, writer: RangeWriter) -> DataFrame:
        """Returns the plan of one task with its group of ranges."""
        records = self._decoded(work)
        if self._folder.decodes_to_rows:
            return with_end(with_bytes(records, self._folder)).mapInArrow(writer.whole, in_spark(writer.schema))
        accepted = taken_in(records, self._folder, writer.intake)
        out = self._transforms.applied(self._folder.pipeline.first, accepted, work.run)
        return with_end(typed(out, work.columns)).mapInArrow(writer.outlet, in_spark(writer.schema))

    def _told(self, error: Exception, work: StageWork) -> BaseException:
        """Converts the JVM's many lines to one of our own errors."""
        if self._cancelled and not is_interrupt(error):
            return Superseded(f"batch {work.batch_id} was taken over while it was being read")
        return as_our_error(error, self._where, work, self._reader.options)

    @property
    def _where(self) -> str:
        return self._folder.pipeline.name
