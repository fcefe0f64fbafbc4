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
from lockstep.engine.part_reader import PartReader, reader_of
from lockstep.engine.plans import reads, unrepeatable
from lockstep.engine.sinks.range_writer import RangeWriter
from lockstep.engine.sinks.tally import lines_of
from lockstep.engine.sinks.task_writer import deleting, writer_of
from lockstep.engine.sinks.writer import Writer
from lockstep.engine.source import kept_lines, source_lines
from lockstep.engine.spark import part_jobs
from lockstep.engine.spark.errors import as_our_error, found_away, is_interrupt, is_of_spark
from lockstep.engine.spark.isolation import in_trial, isolating, newest_task, trial
from lockstep.engine.spark.jobs import jobs
from lockstep.engine.spark.once import read_once
from lockstep.engine.spark.ranges import collected, even_parts, probe, require_no_shuffle, with_end
from lockstep.engine.spark.rows import in_spark, typed
from lockstep.engine.spark.session import session
from lockstep.engine.spark.source import frame_given
from lockstep.engine.transforms import TRANSFORM_NAME, Transforms
from lockstep.formats import decoder_of

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
        self._folder, self._registry = folder, registry
        self._dsn, self._stager_dsn = dsn, stager_dsn
        self._reader = sample or KafkaRanges(kafka, kafka_options or KafkaOptions(), folder.pipeline.record_limits)
        self._group, self._cancelled = "", False
        self._transforms = Transforms(folder)

    def route(self) -> Route:
        """Returns the way of a batch, which leads through Spark, with the reason."""
        return route(self._folder, Route(Way.SPARK, "no other was asked for"))

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
            part_jobs.require_way(writer, self._where, is_their_own=bool(self._stager_dsn))
            if self._folder.decodes_to_rows:
                # A part of a range may hold the record that ends its reader, and each part would read an archived file.
                may_cut = writer.may_cut and work.after_task is None and not work.archived
                reader = self._reader_of(work, self._parts(work, writer, may_cut=may_cut))
                return part_jobs.written(reader, writer, self._where)
            return self._staged(work, writer) if isinstance(writer, Writer) else self._committed(work, writer)

        return self._done(work, written)

    def _death(self, work: StageWork) -> ReaderDied | None:
        """Returns the death of a task that reads and decodes these records. Keeps no rows."""

        def tried() -> None:
            folder = in_trial(self._folder, work)
            trial(self._reader_of(work, self._parts(work), folder), folder, Transforms(folder), work)

        try:
            self._asked(work, tried)
        except ReaderDied as died:
            return died
        return None

    def _parts(
        self, work: StageWork, writer: TaskWriter | None = None, *, may_cut: bool = False
    ) -> list[tuple[StreamRange, ...]]:
        """Returns the ranges of each of the tasks that run side by side."""
        commit = A_COMMIT if isinstance(writer, RangeWriter) else 0
        tasks = tasks_for([item.offsets.span + commit for item in work.ranges], jobs().slots, may_cut=may_cut)
        return even_parts(work.ranges, tasks, may_cut=may_cut)

    def _reader_of(
        self, work: StageWork, parts: Sequence[tuple[StreamRange, ...]], folder: PipelineFolder | None = None
    ) -> PartReader:
        folder = folder or self._folder
        reader = reader_of(work, self._reader, folder.pipeline.archive)
        # A transform is given the keys and headers of all records.
        keeps_bytes = folder.quarantines or not folder.decodes_to_rows
        return PartReader(reader.records, tuple(parts), decoder_of(folder, self._registry, keeps_bytes=keeps_bytes))

    def _given(self, reader: PartReader, writer: TaskWriter) -> DataFrame:
        return frame_given(reader, self._folder, self._transforms, writer.intake)

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

    def _staged(self, work: StageWork, writer: Writer) -> tuple[ManifestLine, ...]:
        """Stages what transforms make of the records."""
        reader = self._reader_of(work, self._parts(work, writer))
        given = self._given(reader, writer)
        source = partial(source_lines, staging_dsn(self._dsn, work.stager), work, len(reader.parts))
        outs = [self._transforms.applied(target, given, work.run) for target in self._folder.pipeline.targets]
        if sum(map(reads, outs)) == 1:
            lines = lines_of(typed(outs[0], work.columns).mapInArrow(writer.outlet, in_spark(writer.schema)))
            return kept_lines(source(), lines)
        return read_once(given, outs, writer, work, source, deleting(self._folder.pipeline))

    def _committed(self, work: StageWork, writer: RangeWriter) -> tuple[Any, ...]:
        """Has each task commit its group of ranges, with the rows that the transform makes of them."""
        works = [replace(work, ranges=part) for part in self._parts(work, writer)]
        frames = [self._one_task(each, replace(writer, from_offsets=each.from_offsets)) for each in works]
        return writer.reports(collected(frames, self._where), len(works), self._where)

    def _one_task(self, work: StageWork, writer: RangeWriter) -> DataFrame:
        """Returns the plan of one task with its group of ranges, each a part by itself."""
        given = self._given(self._reader_of(work, [(item,) for item in work.ranges]), writer)
        out = self._transforms.applied(self._folder.pipeline.first, given, work.run)
        return with_end(typed(out, work.columns)).mapInArrow(writer.outlet, in_spark(writer.schema))

    def _told(self, error: Exception, work: StageWork) -> BaseException:
        """Converts the JVM's many lines to one of our own errors."""
        if self._cancelled and not is_interrupt(error):
            return Superseded(f"batch {work.batch_id} was taken over while it was being read")
        return as_our_error(error, self._where, work, self._reader.options)

    @property
    def _where(self) -> str:
        return self._folder.pipeline.name
