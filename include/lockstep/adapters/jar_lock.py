"""Reads the lock of the broker's jars, and compares their SHA-256 with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

BROKER_FOLDER, JAR_LOCK_NAME = "broker", "jars.json"


@dataclass(frozen=True, slots=True, order=True)
class LockedJar:
    """One jar: `path` is its path below the folder of the jars, such as `broker/kafka-clients-4.2.1.jar`."""

    path: str
    purl: str
    sha256: str


def read_lock() -> list[LockedJar]:
    """Returns every locked jar, as `make lock-jars` wrote it."""
    entries = json.loads(files("lockstep.adapters").joinpath(JAR_LOCK_NAME).read_text())
    return [LockedJar(path, **facts) for path, facts in entries.items()]


def format_lock(jars: Iterable[LockedJar]) -> str:
    """Formats the lock's file, with the jars in the order of their paths."""
    facts = map(asdict, sorted(jars))
    return json.dumps({each.pop("path"): each for each in facts}, indent=1) + "\n"


def check_jars(folder: Path) -> None:
    """Refuses the first jar below `folder` that is missing, not locked, or whose bytes are not the locked ones."""
    flaw = next(_flaws(folder), None)
    if flaw:
        raise Refusal(flaw, next_command="lockstep dev jars")


def sha256(file: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _flaws(folder: Path) -> Iterator[str]:
    locked = {jar.path: jar.sha256 for jar in read_lock()}
    found = {f"{BROKER_FOLDER}/{jar.name}": jar for jar in (folder / BROKER_FOLDER).glob("*.jar")}
    for path in sorted({*locked, *found}):
        if path not in found:
            yield f"{path} is missing in {folder}."
        elif path not in locked:
            yield f"{path} in {folder} is not among the jars that {JAR_LOCK_NAME} locks."
        elif (digest := sha256(found[path])) != locked[path]:
            yield f"{path} in {folder} has the SHA-256 {digest}, and {JAR_LOCK_NAME} locks {locked[path]}."
