"""Builds Spark's settings, and the options of its JVM: a quiet log, and classes from an archive.

An archive fits one Java and one Spark. Another JVM ignores it and loads class by class.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters import jar_lock, java
from lockstep.adapters.connector import jars_folder
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
    "spark.sql.unionOutputPartitioning": "false",  # else parallel tasks become one task that works them off in turn
    "spark.python.worker.reuse": "true",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore",
}

# A JVM whose archive does not fit would say so on standard output, among what its program says.
NOT_A_WORD = "-Xlog:disable -Xlog:all=error:stderr"


def driver_options(environ: Mapping[str, str] = os.environ, *, verbose: bool = False) -> str:
    """Returns the options in one line, for `spark.driver.extraJavaOptions`."""
    given = [f"-Dlog4j2.configurationFile=file:{files('lockstep.adapters') / 'spark.log4j2.properties'}"]
    if verbose:
        given.append("-Dlockstep.level=info")
    return " ".join([*given, *_from_archive(environ)])


def archive(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the path of the archive for this Java and Spark, beside the connector's jars. It need not exist."""
    program = java.find(environ).resolve()
    facts = program.stat()
    folder = jars_folder(environ)
    ahead = sorted(jar.name for jar in (folder / jar_lock.AHEAD).glob("*.jar"))  # an archive fits one class path alone
    made_for = (program, facts.st_size, facts.st_mtime_ns, _spark(), *ahead)
    fingerprint = hashlib.sha256("\0".join(map(str, made_for)).encode()).hexdigest()[:12]
    return folder / f"spark-{version('pyspark')}-{fingerprint}.jsa"


def _from_archive(environ: Mapping[str, str]) -> list[str]:
    try:
        place = archive(environ)
    except Refusal:
        return []
    return [f"-XX:SharedArchiveFile={place}", "-Xshare:auto", NOT_A_WORD] if place.is_file() else []


def _spark() -> Path | None:
    spec = importlib.util.find_spec("pyspark")  # asked without importing, which takes half a second
    return Path(spec.origin).parent if spec and spec.origin else None
