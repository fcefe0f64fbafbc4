"""Defines the drill: one append pipeline over its own topic, in processes that may be killed, stopped and raced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg2

from support.oracles.checker import check

TESTS = Path(__file__).parents[2]
RUNNER = TESTS / "crash" / "runner.py"
DEFINITION = """
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline
P = Pipeline(
    name="drill", topic="{topic}", format=Json("id string, n int"), target=Append("public.drill"),
    limits=Limits(records=200),
)
"""
TARGET = """
create table if not exists public.drill (id text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));
"""


@dataclass
class Drill:
    """One append pipeline over its own topic, in processes that may be killed."""

    dsn: str
    kafka: str
    topic: str
    home: Path
    started: list[int] = field(default_factory=list)

    def start(self, *options: str, fault: str | None = None) -> subprocess.Popen[str]:
        environ = os.environ | {
            "LOCKSTEP_DSN": self.dsn,
            "LOCKSTEP_KAFKA": self.kafka,
            "LOCKSTEP_PIPELINES": str(self.home),
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "include"), str(TESTS)]),
        }
        if fault:
            armed = self.home / f"armed-{time.monotonic_ns()}"
            armed.touch()
            environ["LOCKSTEP_FAULT"] = f"{fault}@{armed}"
        process = subprocess.Popen(
            [sys.executable, str(RUNNER), "drill", *options],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process.pid)
        return process

    def end(self) -> None:
        """Ends everything that was started.

        Each runner is the head of a process group, which holds its JVM and workers.
        """
        for group in self.started:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def run(self, *options: str, fault: str | None = None) -> dict:
        """Runs to the end. A killed runner returns {"killed": signal}."""
        return said(self.start(*options, fault=fault))

    def ask(self, query: str, *values: Any) -> list[tuple]:
        return ask(self.dsn, query, *values)

    def advisory_locks(self) -> list[tuple]:
        """Returns the advisory locks of this database. Other tests use the same server."""
        return self.ask(
            "select pid, mode, granted from pg_locks where locktype = 'advisory'"
            " and database = (select oid from pg_database where datname = current_database())"
        )

    def target_logins(self) -> list[tuple]:
        """Returns the logins that migrations of this database have made. Roles belong to the whole server."""
        return self.ask(
            "select rolname from pg_roles, pg_database d where datname = current_database()"
            " and starts_with(rolname, 'lockstep_target_' || d.oid || '_')"
        )

    def committed(self) -> list[tuple]:
        return self.ask("select batch_id, token from lockstep.commit group by 1, 2 order by 1")

    def violations(self, *, rest: bool = False, least: int = 0) -> list[str]:
        return check(self.dsn, self.kafka, "drill", table="public.drill", rest=rest, least=least)


def ask(dsn: str, query: str, *values: Any) -> list[tuple]:
    """Runs one statement over a separate connection, and returns its rows."""
    with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(query, values)
        return cur.fetchall()


def write_folder(home: Path, topic: str, definition: str = DEFINITION, target: str = TARGET) -> Path:
    """Writes the pipeline over this topic. Returns the place where pipelines are then found."""
    folder = home / "pipelines" / "drill"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(definition.format(topic=topic))
    (folder / "target.sql").write_text(target)
    return folder.parent


def said(process: subprocess.Popen[str], seconds: float = 90) -> dict:
    out, err = process.communicate(timeout=seconds)
    if process.returncode < 0:
        return {"killed": signal.Signals(-process.returncode).name}
    assert out, err
    return json.loads(out)


def wait_stopped(process: subprocess.Popen[str], seconds: float = 30) -> None:
    """Waits until the process has stopped itself at its fault point."""
    until = time.monotonic() + seconds
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < until, "the fault point was never reached"
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def stopped_below(process: subprocess.Popen[str], seconds: float = 240) -> psutil.Process:
    """Returns the worker under this driver that stands still at its fault point."""
    until = time.monotonic() + seconds
    while True:
        for member in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it ended while the tree was looked at
                if member.status() == psutil.STATUS_STOPPED:
                    return member
        assert time.monotonic() < until, "no task was ever stopped"
        time.sleep(0.1)
