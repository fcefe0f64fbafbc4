"""Writes the lock of the jars anew: resolves ivy.xml for each PySpark, and records each jar with its SHA-256."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from lockstep.adapters import jar_lock
from lockstep.adapters.jar_lock import LockedJar
from lockstep.core.errors import Refusal
from lockstep.dev.setup import jars

JAR_LOCK_FILE = Path(jar_lock.__file__).with_name(jar_lock.JAR_LOCK_NAME)
# Each PySpark that pyproject.toml admits and whose connectors are there to be fetched.
SPARK_VERSIONS = ("4.0.0", "4.0.1", "4.0.2", "4.1.1")


def locked_jars(fetched: Path) -> list[LockedJar]:
    """Reads files that are named SPARK/CONFIGURATION/ORGANISATION/MODULE/REVISION.jar."""
    sparks = {folder.name for folder in fetched.iterdir()}
    found: dict[LockedJar, set[str]] = {}
    for jar in fetched.glob("*/*/*/*/*.jar"):
        spark, *names = jar.relative_to(fetched).with_suffix("").parts
        found.setdefault(_locked(jar, *names), set()).add(spark)
    return sorted(
        jar if fitting == sparks else replace(jar, spark=tuple(sorted(fitting))) for jar, fitting in found.items()
    )


def _locked(jar: Path, configuration: str, organisation: str, module: str, revision: str) -> LockedJar:
    purl = f"pkg:maven/{organisation}/{module}@{revision}"
    return LockedJar(f"{configuration}/{module}-{revision}.jar", purl, jar_lock.sha256(jar))


def main() -> int:
    """Runs the module for make: fetches all jars without a cache, and names those that have changed."""
    with TemporaryDirectory(prefix="lockstep-jars-") as scratch:
        place = Path(scratch)
        pattern = Path("[conf]", "[organisation]", "[artifact]", "[revision].[ext]")
        log = jars.folder().with_name("lock-jars.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            for spark in SPARK_VERSIONS:
                options = [f"-D{jars.SPARK_PROPERTY}={spark}"]
                jars.retrieve(place / "jars" / spark / pattern, place / "cache", log, options=options)
        except Refusal as refusal:
            sys.stderr.write(f"{refusal}\n")
            return 1
        found = locked_jars(place / "jars")
    before = jar_lock.read_lock() if JAR_LOCK_FILE.exists() else []
    for jar in sorted({*before} ^ {*found}):
        sys.stderr.write(f"{'+' if jar in found else '-'} {jar.path} {jar.sha256} {' '.join(jar.spark)}\n")
    JAR_LOCK_FILE.write_text(jar_lock.format_lock(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
