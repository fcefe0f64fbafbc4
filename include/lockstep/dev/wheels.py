"""Which of the wheels with Java and Postgres this machine needs, for make to install."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from lockstep.adapters import java
from lockstep.dev import programs
from lockstep.dev.jars import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOCK = CHECKOUT / "requirements-servers.txt"


def missing(environ: Mapping[str, str] = os.environ, lock: Path = LOCK) -> list[str]:
    """The locked requirements that stand in for what the machine lacks and are not installed as they are locked."""
    needed = {java.WHEEL: not java.on_machine(environ), programs.WHEEL: not programs.on_machine(environ)}
    lines = (line.strip() for line in lock.read_text().splitlines())
    locked = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return [f"{name}=={locked[name]}" for name in needed if needed[name] and _installed(name) != locked[name]]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.stdout.write(" ".join(missing()))
