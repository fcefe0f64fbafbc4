"""Names Spark's jobs, in a driver's own JVM or on a server, so that they can be cancelled."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol

from lockstep.adapters import spark_connect
from lockstep.adapters.spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Jobs(Protocol):
    """The requests of an engine to Spark beside its data."""

    def application_id(self) -> str | None:
        """Returns the application's id on Spark's own pages."""

    def slots(self) -> int:
        """Returns the number of tasks that run side by side."""

    def begin(self, name: str, about: str) -> None:
        """Names the jobs of this thread from here on, so that the name can cancel them."""

    def cancel(self, name: str) -> None:
        """Stops the jobs under the name, from any thread."""

    def cancel_all(self) -> None:
        """Stops the jobs that this process has begun."""


class OwnJobs:
    """The jobs of the JVM that this process has started."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    def application_id(self) -> str | None:
        """Returns the id of this process's application."""
        return self._context.applicationId

    def slots(self) -> int:
        """Returns the cores of the application."""
        return self._context.defaultParallelism

    def begin(self, name: str, about: str) -> None:
        """Sets a job group. A cancelled group stays cancelled."""
        self._context.setJobGroup(name, about, interruptOnCancel=True)

    def cancel(self, name: str) -> None:
        """Stops the group's jobs, and those that it has not begun yet."""
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(name)  # noqa: SLF001 - Python lacks it

    def cancel_all(self) -> None:
        """Stops all jobs: all are this process's."""
        self._context.cancelAllJobs()


@cache
def jobs() -> Jobs:
    """Returns the jobs of the process's session."""
    return spark_connect.RemoteJobs(session()) if spark_connect.is_wanted() else OwnJobs(session())
