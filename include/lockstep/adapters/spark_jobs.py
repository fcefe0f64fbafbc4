"""Spark's jobs: what runs for us in a driver's own JVM or on a server, by name, so that it can be cancelled."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol

from lockstep.adapters import spark_connect
from lockstep.adapters.spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Jobs(Protocol):
    """What an engine asks of Spark beside its data."""

    def application_id(self) -> str | None:
        """How Spark's own pages call what runs for us."""

    def slots(self) -> int:
        """How many tasks run side by side."""

    def begin(self, name: str, about: str) -> None:
        """What follows in this thread can be cancelled by this name."""

    def cancel(self, name: str) -> None:
        """Stops what runs under the name, from any thread."""

    def cancel_all(self) -> None:
        """Stops what this process has begun."""


class OwnJobs:
    """Jobs of the JVM that this process has started."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    def application_id(self) -> str | None:
        """The application that this process is."""
        return self._context.applicationId

    def slots(self) -> int:
        """The cores that it was given."""
        return self._context.defaultParallelism

    def begin(self, name: str, about: str) -> None:
        """A group that stays cancelled once it is."""
        self._context.setJobGroup(name, about, interruptOnCancel=True)

    def cancel(self, name: str) -> None:
        """The group's jobs, and those that it has not begun yet."""
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(name)  # noqa: SLF001 - Python lacks it

    def cancel_all(self) -> None:
        """All jobs are this process's."""
        self._context.cancelAllJobs()


@cache
def jobs() -> Jobs:
    """Those of the process's session."""
    return spark_connect.RemoteJobs(session()) if spark_connect.is_wanted() else OwnJobs(session())
