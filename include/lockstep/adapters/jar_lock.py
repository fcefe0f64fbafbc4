"""Reads the lock of the jars, and compares their SHA-256 with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

CONNECTOR_JARS, AHEAD_JARS, BROKER_JARS = "connector", "ahead", "broker"
JAR_LOCK_NAME = "jars.json"


@dataclass(frozen=True, slots=True, order=True)
class LockedJar:
    """One jar: `path` is its place below the folder of all jars, such as `connector/xz-1.10.jar`."""

    path: str
    purl: str
    sha256: str


def read_lock() -> list[LockedJar]:
    """Returns every locked jar, as `make lock-jars` wrote it."""
    entries = json.loads(files("lockstep.adapters").joinpath(JAR_LOCK_NAME).read_text())
    return [LockedJar(path, **facts) for path, facts in entries.items()]


def format_lock(jars: Iterable[LockedJar]) -> str:
    """Formats the lock's file, with the jars in the order of their paths."""
    return json.dumps({jar.path: {"purl": jar.purl, "sha256": jar.sha256} for jar in sorted(jars)}, indent=1) + "\n"


def checked_jars(folder: Path, configuration: str) -> list[str]:
    """Returns the jars of one configuration below `folder`, in order.

    Refuses a jar that is missing, that is not locked, or whose bytes are not the locked ones.
    """
    flaw = next(_flaws(folder, configuration), None)
    if flaw:
        raise Refusal(flaw, next_command="lockstep dev jars")
    return sorted(str(jar) for jar in (folder / configuration).glob("*.jar"))


def sha256(file: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _flaws(folder: Path, configuration: str) -> Iterator[str]:
    locked = {jar.path: jar.sha256 for jar in read_lock() if jar.path.startswith(f"{configuration}/")}
    found = {f"{configuration}/{jar.name}": jar for jar in sorted((folder / configuration).glob("*.jar"))}
    for path in sorted({*locked, *found}):
        if path not in found:
            yield f"{path} is missing in {folder}."
        elif path not in locked:
            yield f"{path} in {folder} is not among the jars that {JAR_LOCK_NAME} locks."
        elif (digest := sha256(found[path])) != locked[path]:
            yield f"{path} in {folder} has the SHA-256 {digest}, and {JAR_LOCK_NAME} locks {locked[path]}."
