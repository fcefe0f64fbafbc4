"""Runs the peer that an engineer writes: a fast JSON reader and COPY, by several processes.

Rows and offsets are committed in one transaction.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2

from peers.contender import UPSERT, started
from peers.python_copy_process import Share
from peers.records import ORIGIN_DDL, REJECTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

    from peers.contender import Place, Task

PROGRAM = "peers.python_copy_process"
# Offsets begin at 0, and rejects have a table of their own. Both are written in the transaction of the rows.
OFFSETS = """create table public.{table}_offsets (partition int4 primary key, next_offset int8 not null);
insert into public.{table}_offsets select n, 0 from generate_series(0, {partitions} - 1) as n"""


@dataclass(slots=True)
class PythonCopy:
    """Processes that are up before a run, each with its share of the partitions.

    Each record is written once: a partition has one process, and its offset moves in the transaction of its rows.
    """

    processes: int
    _place: Place | None = None
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, place: Place) -> None:
        """Starts all processes."""
        self._place = place
        environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        self._started = [
            subprocess.Popen(
                [sys.executable, "-m", PROGRAM], env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(self.processes)
        ]
        for process in self._started:
            _answer(process)

    def prepare(self, task: Task) -> None:
        """Makes the tables of offsets and rejects."""
        with closing(psycopg2.connect(started(self._place).superuser_dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(OFFSETS.format(table=task.table, partitions=task.partitions))
            cur.execute(REJECTS.format(table=task.table, origin=ORIGIN_DDL))

    def run(self, task: Task) -> Mapping[str, float]:
        """Runs all shares side by side, until the last is committed."""
        shares = [share for share in task.workload.shares(task.partitions, self.processes) if share]
        asked = list(zip(self._started, shares, strict=False))  # there may be more processes than partitions
        for process, partitions in asked:
            _pipe(process.stdin).write(json.dumps(asdict(self._share(task, partitions))) + "\n")
            _pipe(process.stdin).flush()
        for process, _ in asked:
            _answer(process)
        return {}

    def finish(self) -> None:
        """Does nothing, because nothing goes on."""

    def end(self) -> None:
        """Ends the processes by closing their input."""
        for process in self._started:
            _pipe(process.stdin).close()
            process.wait(10)

    def _share(self, task: Task, partitions: tuple[int, ...]) -> Share:
        place = started(self._place)
        return Share(
            bootstrap=place.bootstrap,
            dsn=place.superuser_dsn,
            topic=task.topic,
            table=task.table,
            partitions=partitions,
            is_upsert=task.kind == UPSERT,
            rows=int(task.option("rows")),
            lines=task.workload.lines,
        )


def _answer(process: subprocess.Popen[str]) -> int:
    """Returns the number of rows that a process has written. Raises its error."""
    answer = json.loads(_pipe(process.stdout).readline() or '{"error": "the process has ended"}')
    if "error" in answer:
        raise ValueError(answer["error"])
    return int(answer["rows"])


def _pipe(pipe: IO[str] | None) -> IO[str]:
    """Returns a pipe that was requested when the process was started."""
    if pipe is None:
        raise RuntimeError("not started")
    return pipe
