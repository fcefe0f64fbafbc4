"""Reads the lock of the jars for the installed PySpark, and compares their SHA-256 with it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
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
    spark: tuple[str, ...] = ()  # the versions of PySpark that it is for, none for a jar of all versions


def read_lock() -> list[LockedJar]:
    """Returns every locked jar, for any PySpark, as `make lock-jars` wrote it."""
    entries = json.loads(files("lockstep.adapters").joinpath(JAR_LOCK_NAME).read_text())
    return [LockedJar(path, **facts | {"spark": tuple(facts.get("spark", ()))}) for path, facts in entries.items()]


def format_lock(jars: Iterable[LockedJar]) -> str:
    """Formats the lock's file, with the jars in the order of their paths."""
    entries = {
        jar.path: {"purl": jar.purl, "sha256": jar.sha256} | ({"spark": list(jar.spark)} if jar.spark else {})
        for jar in sorted(jars)
    }
    return json.dumps(entries, indent=1) + "\n"


def installed_spark() -> str | None:
    """Returns the version of the installed PySpark, None if there is none."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


def spark_release(jars: Iterable[LockedJar], spark: str | None) -> str | None:
    """Returns the version whose jars fit this PySpark: the newest without one, none if all fit all.

    A build such as 4.1.1.dev1 takes the jars of 4.1.1. Refuses a PySpark that no jar is locked for.
    """
    known = sorted({each for jar in jars for each in jar.spark}, key=_numbers)
    if spark is None or not known:
        return known[-1] if known else None
    release = ".".join(map(str, _numbers(spark)[:3]))
    if release not in known:
        raise Refusal(
            f"PySpark {spark} is installed, and {JAR_LOCK_NAME} has Spark's connector for {', '.join(known)}.",
            next_command=f"pip install pyspark=={known[-1]} pyspark-client=={known[-1]}",
        )
    return release


def of_another_spark(jars: Iterable[LockedJar], surplus: set[str]) -> str | None:
    """Returns the versions of PySpark that all surplus jars are for. None if there are no such versions."""
    sparks = [set(jar.spark) for jar in jars if jar.path in surplus]
    common = set.intersection(*sparks) if sparks and len(sparks) == len(surplus) else set()
    return " or ".join(sorted(common, key=_numbers)) or None


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
    every, spark = [jar for jar in read_lock() if jar.path.startswith(f"{configuration}/")], installed_spark()
    release = spark_release(every, spark)
    locked = {jar.path: jar.sha256 for jar in every if not jar.spark or release in jar.spark}
    found = {f"{configuration}/{jar.name}": jar for jar in sorted((folder / configuration).glob("*.jar"))}
    if others := of_another_spark(every, {*found} - {*locked}):
        yield f"the jars in {folder} are for PySpark {others}, and {spark or 'none'} is installed."
    for path in sorted({*locked, *found}):
        if path not in found:
            yield f"{path} is missing in {folder}."
        elif path not in locked:
            yield f"{path} in {folder} is not among the jars that {JAR_LOCK_NAME} locks."
        elif (digest := sha256(found[path])) != locked[path]:
            yield f"{path} in {folder} has the SHA-256 {digest}, and {JAR_LOCK_NAME} locks {locked[path]}."


def _numbers(of: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", of)
    return tuple(map(int, found[0].split("."))) if found else ()
