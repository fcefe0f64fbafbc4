"""Defines a contender: one way from Kafka to Postgres, in a separate process that is warm before it is measured."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from peers.orders import ORDERS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from peers.workload import Workload

APPEND, UNKEYED, UPSERT, LIMIT, KEYED_LIMIT = "append", "append, unkeyed", "upsert", "limit", "limit, same table"
OURS, PEER, BARE = "ours", "peer", "limit"
COUNTED = "counted"
Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The servers, a folder to work in, and the jars of the peers."""

    home: Path
    bootstrap: str
    dsn: str
    superuser_dsn: str
    postmaster: int
    jars: Path

    @property
    def jdbc(self) -> tuple[str, str, str]:
        """Returns what a JVM connects to Postgres with: url, user, password."""
        from psycopg2.extensions import parse_dsn  # noqa: PLC0415 - contenders of the JVM alone

        known = parse_dsn(self.superuser_dsn)
        url = f"jdbc:postgresql://{known['host']}:{known['port']}/{known['dbname']}?reWriteBatchedInserts=true"
        return url, known["user"], known["password"]


@dataclass(frozen=True, slots=True)
class Task:
    """One run: this topic into this table, which is empty. `kind` says what a record does there.

    The workload says what the records are, and which tables they go to if there are several.

    `UNKEYED` appends, too, to a table that has neither columns of origin nor an index. `KEYED_LIMIT` fills the table of
    the appends, key and all, with rows that are COPY's bytes already.
    """

    topic: str
    table: str
    records: int
    partitions: int
    kind: str
    options: Options = ()
    workload: Workload = ORDERS

    def option(self, name: str) -> str:
        """Returns the value of an option of this run."""
        return dict(self.options)[name]


class Session(Protocol):
    """The actions of a contender. Its process lives from `start` to `end`, and only `run` is measured."""

    def start(self, place: Place) -> None:
        """Starts the servers that must be warm. Raises when that is impossible here."""

    def prepare(self, task: Task) -> None:
        """Does what a user would have done beforehand: definitions, and not the first byte read."""

    def run(self, task: Task) -> Mapping[str, float]:
        """Runs from the trigger until everything is committed. A second call finds nothing new.

        May return the seconds of steps. If `COUNTED` is among them, it alone counts.
        """

    def finish(self) -> None:
        """Stops work that would go on after a run, because others have their turn."""

    def end(self) -> None:
        """Ends everything that was started."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A name in the table, with its session, its work and its tuning.

    The fastest of its `tunings` is chosen before the rounds begin. It makes its table by itself if `makes_table` says
    so. If it `resumes`, a second run finds nothing new. More than `at_most` records would take too long. `engine` is
    the program that does the work, where a figure names it. Without
    `has_runs` only its throughput is measured.
    """

    name: str
    family: str
    session: str
    kind: str
    promise: str
    tunings: tuple[Options, ...] = ((),)
    checked: bool = True
    makes_table: bool = False
    resumes: bool = True
    at_most: int = 1 << 60
    has_runs: bool = True
    engine: str = ""
    workload: Workload = ORDERS


def started(place: Place | None) -> Place:
    """Returns the session, which must have been started."""
    if place is None:
        raise RuntimeError("not started")
    return place


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))
