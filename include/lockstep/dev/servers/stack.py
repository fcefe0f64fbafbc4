"""Reads and writes a project's state file, which holds the servers' addresses and a password for its owner alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.core.settings import ENVIRONMENT
from lockstep.dev.private import write_privately
from lockstep.dev.servers import processes
from lockstep.dev.servers.processes import Process

if TYPE_CHECKING:
    from collections.abc import Mapping

UP = "lockstep dev up"
_LANDMARKS = (".lockstep", "pyproject.toml", ".git")


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server of the stack as it was last seen. The port is kept for its next start."""

    port: int
    process: Process | None

    @property
    def lives(self) -> bool:
        """Returns True if exactly this process still runs."""
        return self.process is not None and processes.alive(self.process)


@dataclass(frozen=True, slots=True)
class Stack:
    """The contents of `stack.json`. An address is None if the stack has no such server."""

    home: Path
    dsn: str | None = field(default=None, repr=False)
    kafka: str | None = None
    postgres: ServerState | None = None
    broker: ServerState | None = None
    airflow: ServerState | None = None
    spark: ServerState | None = None

    @property
    def spark_remote(self) -> str | None:
        """Returns the address of a running Spark, as SPARK_REMOTE takes it, or None."""
        from lockstep.dev.servers import spark_connect  # noqa: PLC0415 - only where one runs

        if not (self.spark and self.spark.lives):
            return None
        return spark_connect.remote_of(self.spark.port, spark_connect.token_of(self.home))


def home_of(start: Path, environ: Mapping[str, str] = ENVIRONMENT) -> Path | None:
    """Returns the state folder: `LOCKSTEP_HOME`, else `.lockstep` in the nearest project at or above a folder."""
    if given := environ.get("LOCKSTEP_HOME"):
        return Path(given).resolve()
    for folder in (start.resolve(), *start.resolve().parents):
        if any((folder / name).exists() for name in _LANDMARKS):
            return folder / ".lockstep"
    return None


def find_stack(start: Path | None = None, environ: Mapping[str, str] = ENVIRONMENT) -> Stack | None:
    """Returns the stack that was last started for the project here, or None if there never was one."""
    home = home_of(start or Path.cwd(), environ)
    return read(home) if home else None


def read(home: Path) -> Stack | None:
    """Reads the state file. Returns None if there is none, or an unreadable one: `up` writes it anew."""
    try:
        kept = json.loads((home / "stack.json").read_text())
        parts = (_part(kept["postgres"]), _part(kept["broker"]), _part(kept.get("airflow")), _part(kept.get("spark")))
        return Stack(home, kept["dsn"], kept["kafka"], *parts)
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def write_stack(stack: Stack) -> None:
    """Writes the state file at once and whole. Only its owner may read it, because it holds a password."""
    text = {
        "dsn": stack.dsn,
        "kafka": stack.kafka,
        "postgres": _as_json(stack.postgres),
        "broker": _as_json(stack.broker),
        "airflow": _as_json(stack.airflow),
        "spark": _as_json(stack.spark),
    }
    write_privately(stack.home / "stack.json", json.dumps(text, indent=1))


def _as_json(part: ServerState | None) -> dict[str, Any] | None:
    if part is None:
        return None
    process = part.process
    return {"port": part.port, "pid": process.pid if process else None, "started": process.started if process else None}


def _part(kept: dict[str, Any] | None) -> ServerState | None:
    if kept is None:
        return None
    return ServerState(int(kept["port"]), Process(int(kept["pid"]), str(kept["started"])) if kept["pid"] else None)
