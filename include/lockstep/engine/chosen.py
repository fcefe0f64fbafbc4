"""Reads each batch with the engine that was chosen: this process, or Spark."""

from __future__ import annotations

from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from lockstep.adapters.postgres_errors import StatementRefused, server_refusals
from lockstep.adapters.postgres_words import last_line
from lockstep.core.engine import LeftToSpark
from lockstep.core.errors import BadData, Superseded, Unreachable, no_room
from lockstep.core.pipeline.formats import registered_of
from lockstep.core.planning.routes import Route, Way, route
from lockstep.engine.part_reader import reader_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.engine import Engine, Sink
    from lockstep.core.figures import Application, Figures
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.routes import Route
    from lockstep.core.registry import Registry
    from lockstep.core.staging import StageWork
    from lockstep.engine.kafka_ranges import KafkaRanges

    GoOn = Callable[[], None]

_Reported = TypeVar("_Reported")


def engine_of(
    folder: PipelineFolder,
    broker: Broker,
    dsn: str,
    registry: Callable[[], Registry | None],
    choice: Route,
    before_spark: Callable[[], object] = lambda: None,
    stager_dsn: str | None = None,
) -> Engine:
    """Returns an engine that reads from this broker into this ledger. Imports neither reader before it is needed.

    `before_spark` chooses the Spark by its environment. `registry` reads the settings of the schema registry.
    `stager_dsn` is the login of executors, if they have one of their own.
    """

    def process() -> ProcessReader:
        from lockstep.engine.kafka_ranges import KafkaRanges  # noqa: PLC0415 - planning alone needs no reader

        reader = KafkaRanges(broker.bootstrap, broker.options, folder.pipeline.record_limits)
        return ProcessReader(folder, reader, dsn, registry() if registered_of(folder.pipeline.format) else None)

    def spark() -> Engine:
        before_spark()
        from lockstep.engine.spark.engine import SparkEngine  # noqa: PLC0415 - it takes longer than planning

        return SparkEngine(folder, broker.bootstrap, dsn, broker.options, registry(), stager_dsn=stager_dsn)

    return ChosenEngine(folder, process, spark, choice)


class ChosenEngine:
    """An engine that reads with `process`, if that was chosen, and else with `spark`.

    Makes each when it is first needed, because importing PySpark alone takes longer than planning. A batch with a
    record that keeps its decoder busy leaves nothing behind. Spark then reads that batch, and all later ones.
    """

    def __init__(
        self,
        folder: PipelineFolder,
        process: Callable[[], ProcessReader],
        spark: Callable[[], Engine],
        choice: Route,
    ) -> None:
        self._folder, self._choice = folder, choice
        self._make_process, self._make_spark = process, spark
        self._process: ProcessReader | None = None
        self._spark: Engine | None = None
        self._left = self._cancelled = False

    def route(self) -> Route:
        """Returns the way of the next batch, and why."""
        return route(self._folder, self._choice, left=self._left)

    def application(self, work: StageWork) -> Application | None:
        """Returns the run's name and addresses on Spark's own pages, or None if Spark takes no part in it."""
        return None if self._is_here() else self._engine().application(work)

    def figures(self, work: StageWork) -> Figures | None:
        """Returns what Spark says of this work. Returns None without a call if Spark was not started."""
        return None if self._spark is None else self._spark.figures(work)

    def columns(self, place: int = 0) -> tuple[Column, ...]:
        """Returns the columns that reach the target at this place."""
        if not place:  # an attempt begins: a cancel of the previous one does not concern it
            self._cancelled = False
        if self._spark is None and self._folder.decodes_to_rows:
            return self._folder.pipeline.staged_columns
        return self._engine().columns(place)

    def read(self, work: StageWork, sink: Sink[_Reported]) -> tuple[_Reported, ...]:
        """Reads every visible record of the ranges into the sink. Spark finds ranges that this process has committed."""
        if self._is_here():
            if self._process is None:
                self._process = self._make_process()
            try:
                return self._process.read(work, sink, partial(self._require_wanted, work))
            except LeftToSpark:
                self._left = True
        return self._engine().read(work, sink)

    def cancel(self) -> None:
        """Stops the current read, and one that has not begun yet."""
        self._cancelled = True
        if self._spark is not None:
            self._spark.cancel()

    def _require_wanted(self, work: StageWork) -> None:
        if self._cancelled:
            raise Superseded(f"batch {work.batch_id} was taken over while it was being read")

    def _is_here(self) -> bool:
        return self.route().way is Way.PROCESS

    def _engine(self) -> Engine:
        if self._spark is None:
            self._spark = self._make_spark()
            if self._cancelled:
                self._spark.cancel()
        return self._spark


class ProcessReader:
    """This process as a reader. Raises `LeftToSpark` for a record that keeps its decoder busy."""

    def __init__(self, folder: PipelineFolder, reader: KafkaRanges, dsn: str, registry: Registry | None = None) -> None:
        self._folder = folder
        self._reader = reader
        self._dsn = dsn
        self._registry = registry

    def read(self, work: StageWork, sink: Sink[_Reported], go_on: GoOn) -> tuple[_Reported, ...]:
        """Stages every visible record of the ranges, or none. A sink of ranges keeps those that it has committed."""
        from lockstep.engine.patience import decode_patiently  # noqa: PLC0415 - planning alone needs no reader
        from lockstep.engine.sinks.task_writer import writer_of  # noqa: PLC0415 - as above
        from lockstep.formats import decoder_of  # noqa: PLC0415 - as above

        decoder = decoder_of(self._folder, self._registry, keeps_bytes=self._folder.quarantines)
        reader = reader_of(work, self._reader, self._folder.pipeline.archive)
        writer = writer_of(sink, work, self._folder, self._dsn)
        # A consumer that an error keeps open until the interpreter ends would wait for a thread that cannot begin any more.
        with closing(reader.records(work.ranges, go_on)) as raw, _one_line(work, go_on):
            reports = writer.direct(decode_patiently(raw, decoder))
            rows = [row for report in reports for row in report.to_pylist()]
        return cast("tuple[_Reported, ...]", writer.reports(rows, 1, work.pipeline))


@contextmanager
def _one_line(work: StageWork, go_on: GoOn) -> Iterator[None]:
    """Turns errors between Kafka and Postgres into one line."""
    what = f"{work.pipeline}: batch {work.batch_id}"
    try:
        with server_refusals():
            yield
    except OSError as error:
        go_on()
        if full := no_room(error):
            raise Unreachable(f"{what} could not be read: {full.message}", next_command=full.next_command) from error
        if not isinstance(error, ConnectionError):
            raise
        raise Unreachable(f"{what} could not be read: {last_line(error)}") from error
    except StatementRefused as error:
        go_on()
        raise BadData(
            f"{what} could not be staged: {error.logged}: {last_line(error)}",
            next_command=f"lockstep batch {work.batch_id}",
        ) from error
