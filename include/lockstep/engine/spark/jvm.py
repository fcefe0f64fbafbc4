"""Builds Spark's settings, and the options of its JVM: a quiet log, and classes from an archive.

An archive fits one Java and one Spark. Another JVM ignores it and loads class by class.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters import java
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.limits import MEGABYTE
from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

JVM_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * MEGABYTE),  # 50,000 records of a megabyte fit nowhere
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
    "spark.sql.unionOutputPartitioning": "false",  # else parallel tasks become one task that works them off in turn
    "spark.python.worker.reuse": "true",
    "spark.python.worker.faulthandler.enabled": "true",  # the error of a task has its process's last words
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}

EVENTS, UI = "LOCKSTEP_SPARK_EVENTS", "LOCKSTEP_SPARK_UI"
HIGHEST_PORT = 65_535

# A JVM whose archive does not fit would say so on standard output, among what its program says.
NOT_A_WORD = "-Xlog:disable -Xlog:all=error:stderr"


def settings(environ: Mapping[str, str] = ENVIRONMENT) -> dict[str, str]:
    """Returns Spark's settings, with its event log and its pages if the environment asks for them.

    Makes the event log's folder if it is one of this machine. Raises `Refusal` if that or the port cannot be.
    """
    found = dict(JVM_SETTINGS)
    if place := environ.get(EVENTS, "").strip():
        found |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": _events_folder(place)}
    if port := environ.get(UI, "").strip():
        if not port.isdecimal() or int(port) > HIGHEST_PORT:
            raise Refusal(
                f"{UI} is {port!r}, and takes a port: if it is taken, Spark tries the next ones",
                next_command=f"set {UI} to 4040, or to 0 for a free port",
            )
        found |= {"spark.ui.enabled": "true", "spark.ui.port": port, "spark.ui.killEnabled": "false"}
    return found


def _events_folder(place: str) -> str:
    if "://" in place:  # of a store that Spark reaches by itself
        return place
    folder = Path(place.removeprefix("file:")).absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(
            f"{EVENTS}: the folder {folder} cannot be made: {error.strerror}",
            next_command=f"set {EVENTS} to a folder that may be written",
        ) from None
    return folder.as_uri()


def driver_options(environ: Mapping[str, str] = ENVIRONMENT, *, verbose: bool = False) -> str:
    """Returns the options in one line, for `spark.driver.extraJavaOptions`."""
    given = [f"-Dlog4j2.configurationFile=file:{files('lockstep.engine.spark') / 'spark.log4j2.properties'}"]
    if verbose:
        given.append("-Dlockstep.level=info")
    return " ".join([*given, *_from_archive(environ)])


def archive_name(environ: Mapping[str, str] = ENVIRONMENT) -> str:
    """Returns the file name of the archive for this Java and Spark."""
    program = java.find_java(environ).resolve()
    facts = program.stat()
    made_for = (program, facts.st_size, facts.st_mtime_ns, java.pyspark_jars())
    fingerprint = hashlib.sha256("\0".join(map(str, made_for)).encode()).hexdigest()[:12]
    return f"spark-{version('pyspark')}-{fingerprint}.jsa"


def _from_archive(environ: Mapping[str, str]) -> list[str]:
    folders = [Path(environ["LOCKSTEP_JARS"])] if environ.get("LOCKSTEP_JARS") else []
    folders += [folder / ".lockstep" / "jars" for folder in (Path.cwd(), *Path.cwd().parents)]
    try:
        name = archive_name(environ)
    except Refusal:
        return []
    archive = next((folder / name for folder in folders if (folder / name).is_file()), None)
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", NOT_A_WORD] if archive else []
