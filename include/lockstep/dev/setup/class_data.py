"""Creates the archive of Spark's classes, once for each Java and Spark, by running one small job to its end."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters import java
from lockstep.core.errors import Refusal
from lockstep.core.settings import ENVIRONMENT
from lockstep.dev import lock
from lockstep.dev.servers import processes
from lockstep.dev.setup import jars
from lockstep.dev.setup.spark_submit import spark_submit
from lockstep.engine.spark import jvm

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_JOB = Path(jvm.__file__).with_name("first_job.py")


def ensure_class_data(say: Callable[[str], None]) -> None:
    """Creates the archive if it is missing. Continues without one if this Java cannot create it."""
    environ = dict(ENVIRONMENT) | java.exports()
    place = jars.folder() / jvm.archive_name(environ)
    with lock.held(place.with_suffix(".lock"), say):
        if place.is_file():
            return
        say("spark: keeping its classes for a quicker start (half a minute, once)")
        for old in place.parent.glob("spark-*.jsa"):
            old.unlink()
        fresh, log = place.with_suffix(".new"), place.with_suffix(".log")
        log.unlink(missing_ok=True)
        options = f"-XX:ArchiveClassesAtExit={fresh} {jvm.NOT_A_WORD}"
        conf = {"spark.driver.extraJavaOptions": options, "spark.ui.enabled": "false", "spark.log.level": "OFF"}
        command = spark_submit("local[1]", conf, str(FIRST_JOB))
        if (
            processes.run_program(command, log=log, environ=environ | {"PYSPARK_PYTHON": sys.executable})
            and fresh.is_file()
        ):
            fresh.rename(place)
        else:
            fresh.unlink(missing_ok=True)
            say(f"spark: this Java keeps no classes, so that each start loads them: {shlex.join(command[:1])}, {log}")


def main() -> int:
    """Runs the module for make. A Spark that starts slowly does not fail a build."""
    try:
        ensure_class_data(_say)
    except Refusal as refusal:
        _say(str(refusal))
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
