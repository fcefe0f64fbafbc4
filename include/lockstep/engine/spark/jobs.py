"""Names Spark's jobs, in a driver's own JVM or on a server, so that they can be cancelled."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Protocol

from lockstep.engine.spark import connect as spark_connect
from lockstep.engine.spark import figures as spark_figures
from lockstep.engine.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lockstep.core.figures import Application, Figures

MOST_METERS = 8  # attempts whose figures are still wanted. An interrupted one never asks.


class Jobs(Protocol):
    """The requests of an engine to Spark, apart from its data."""

    def application(self) -> Application:
        """Returns the application's id, with its pages and its event log, if it has them."""

    def figures(self, attempt: str) -> Figures | None:
        """Returns what Spark says of this attempt's jobs, once. Returns None if it ran none."""

    def slots(self) -> int:
        """Returns the number of tasks that run side by side."""

    def begin(self, name: str, about: str, attempt: str) -> None:
        """Names the jobs of this thread from here on, so that the name can cancel them. They count for the attempt."""

    def cancel(self, name: str) -> None:
        """Stops the jobs under the name, from any thread."""

    def cancel_all(self) -> None:
        """Stops the jobs that this process has begun."""


class OwnJobs:
    """The jobs of the JVM that this process has started."""

    def __init__(self, session: SparkSession) -> None:
        self._session, self._context = session, session.sparkContext
        self._memory: spark_figures.Memory | None = None
        self._meters: dict[str, spark_figures.Meter] = {}

    def application(self) -> Application:
        """Returns this process's application."""
        return spark_figures.application(self._context)

    def figures(self, attempt: str) -> Figures | None:
        """Returns the figures since the attempt's first job."""
        meter = self._meters.pop(attempt, None)
        return meter.figures() if meter else None

    def slots(self) -> int:
        """Returns the cores of the application."""
        return self._context.defaultParallelism

    def begin(self, name: str, about: str, attempt: str) -> None:
        """Sets a job group. A cancelled group stays cancelled."""
        self._context.setJobGroup(name, about, interruptOnCancel=True)
        with suppress(Exception):  # figures that cannot be taken fail no read
            self._meter(attempt).groups.append(name)

    def cancel(self, name: str) -> None:
        """Stops the group's jobs, and those that it has not begun yet."""
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(name)  # noqa: SLF001 - Python lacks it

    def cancel_all(self) -> None:
        """Stops all jobs: all are this process's."""
        self._context.cancelAllJobs()

    def _meter(self, attempt: str) -> spark_figures.Meter:
        if attempt not in self._meters:
            for oldest in list(self._meters)[: 1 - MOST_METERS]:
                del self._meters[oldest]
            self._memory = self._memory or spark_figures.Memory(self._context)
            self._meters[attempt] = spark_figures.Meter(self._session, self._memory)
        return self._meters[attempt]


@cache
def jobs() -> Jobs:
    """Returns the jobs of the process's session."""
    return spark_connect.RemoteJobs(session()) if spark_connect.is_wanted() else OwnJobs(session())
