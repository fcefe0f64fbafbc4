"""Resolves the jars of the embedded Kafka broker, once, with pyspark's Ivy: pip cannot install them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters import java
from lockstep.adapters.jar_lock import BROKER_FOLDER, check_jars
from lockstep.core.errors import Refusal
from lockstep.core.settings import ENVIRONMENT
from lockstep.dev import lock
from lockstep.dev.servers import processes
from lockstep.dev.servers.stack import home_of
from lockstep.dev.setup import trust
from lockstep.installed import CHECKOUT, IN_CHECKOUT, SHIPPED, install_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def folder(environ: Mapping[str, str] = ENVIRONMENT) -> Path:
    """Returns the folder for the jars: `LOCKSTEP_JARS`, else `.lockstep/jars` in the checkout of this code.

    Of an installed package, it is `.lockstep/jars` in the nearest project at or above the current folder.
    """
    if given := environ.get("LOCKSTEP_JARS"):
        return Path(given)
    here = CHECKOUT / ".lockstep" if IN_CHECKOUT else home_of(Path.cwd(), {}) or Path.cwd() / ".lockstep"
    return here / "jars"


def broker_jars(environ: Mapping[str, str] = ENVIRONMENT) -> Path:
    """Returns the folder with the broker's jars. Refuses jars that are not the locked ones."""
    check_jars(folder(environ))
    return folder(environ) / BROKER_FOLDER


def complete(target: Path) -> bool:
    """Returns True if the jars are the locked ones: none missing, none besides, each with its SHA-256."""
    try:
        check_jars(target)
    except Refusal:
        return False
    return True


def ensure_jars(target: Path, say: Callable[[str], None]) -> None:
    """Resolves the jars unless they are complete. The folder appears at once and whole, or not at all."""
    if complete(target):
        return
    with lock.held(target.with_name(f"{target.name}.lock"), say) as descriptor:
        if not complete(target):
            say("jars: resolving the Kafka broker (about a minute, once)")
            _resolve(target, descriptor)


def _resolve(target: Path, lock_held: int) -> None:
    fresh, old, cache = (target.with_name(f"{target.name}.{suffix}") for suffix in ("new", "old", "cache"))
    shutil.rmtree(fresh, ignore_errors=True)
    # The cache outlives a failure, so that the next call downloads only what is missing.
    pattern, log = fresh / "[conf]" / "[artifact]-[revision].[ext]", target.with_name(f"{target.name}.log")
    retrieve(pattern, cache, log, lock_held)
    try:
        check_jars(fresh)
    except Refusal as refusal:
        for refused in (fresh, cache):
            shutil.rmtree(refused, ignore_errors=True)
        again = "lockstep dev jars to fetch it again, or make lock-jars if ivy.xml was changed"
        raise Refusal(refusal.message, next_command=again) from None
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    for done_with in (old, cache):
        shutil.rmtree(done_with, ignore_errors=True)


def retrieve(
    pattern: Path,
    cache: Path,
    log: Path,
    lock_held: int | None = None,
    wanted: Path = SHIPPED / "ivy.xml",
    options: Sequence[str] = (),
) -> None:
    """Lets Ivy fetch the `wanted` jars into files that are named by `pattern`. `options` are Java's."""
    ivy = next(java.pyspark_jars().glob("ivy-*.jar"), None)
    if ivy is None:
        raise Refusal(f"no Ivy among the jars of pyspark in {java.pyspark_jars()}.", next_command=install_of("pyspark"))
    program = java.find_java()
    # A machine's own Java knows whom to trust. The wheel's knows only the public authorities.
    cache.mkdir(parents=True, exist_ok=True)
    trusting = [] if java.java_on_machine() else trust.options(cache / "trust.p12")
    command = [str(program), *trusting, *options, "-jar", str(ivy), "-ivy", str(wanted), "-cache", str(cache)]
    log.unlink(missing_ok=True)
    # An Ivy that outlives us must keep the next one waiting: they would write the same files.
    command += ["-types", "jar", "bundle", "-retrieve", str(pattern)]
    if not processes.run_program(command, log=log, holding=[] if lock_held is None else [lock_held]):
        raise Refusal(f"Ivy could not resolve the jars; {log} says why.", next_command="lockstep dev jars")


def main() -> int:
    """Runs the module for make: resolves missing jars, or says in one line why it cannot."""
    try:
        ensure_jars(folder(), _say)
    except Refusal as refusal:
        _say(str(refusal))
        return 1
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
