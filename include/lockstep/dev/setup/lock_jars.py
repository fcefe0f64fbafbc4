"""Writes the lock of the jars anew: resolves ivy.xml, and records each jar with its SHA-256."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from lockstep.adapters import jar_lock
from lockstep.adapters.jar_lock import LockedJar
from lockstep.core.errors import Refusal
from lockstep.dev.setup import jars

JAR_LOCK_FILE = Path(jar_lock.__file__).with_name(jar_lock.JAR_LOCK_NAME)


def locked_jars(fetched: Path) -> list[LockedJar]:
    """Reads files that are named CONFIGURATION/ORGANISATION/MODULE/REVISION.jar."""
    return sorted(_locked(jar, *jar.relative_to(fetched).with_suffix("").parts) for jar in fetched.glob("*/*/*/*.jar"))


def _locked(jar: Path, configuration: str, organisation: str, module: str, revision: str) -> LockedJar:
    purl = f"pkg:maven/{organisation}/{module}@{revision}"
    return LockedJar(f"{configuration}/{module}-{revision}.jar", purl, jar_lock.sha256(jar))


def main() -> int:
    """Runs the module for make: fetches all jars without a cache, and names those that have changed."""
    with TemporaryDirectory(prefix="lockstep-jars-") as scratch:
        place = Path(scratch)
        pattern = place / "jars" / "[conf]" / "[organisation]" / "[artifact]" / "[revision].[ext]"
        log = jars.folder().with_name("lock-jars.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            jars.retrieve(pattern, place / "cache", log)
        except Refusal as refusal:
            sys.stderr.write(f"{refusal}\n")
            return 1
        found = locked_jars(place / "jars")
    before = jar_lock.read_lock() if JAR_LOCK_FILE.exists() else []
    for jar in sorted({*before} ^ {*found}):
        sys.stderr.write(f"{'+' if jar in found else '-'} {jar.path} {jar.sha256}\n")
    JAR_LOCK_FILE.write_text(jar_lock.format_lock(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
