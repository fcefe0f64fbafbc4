"""The Spark session: made on first need, kept for the process, quiet, and gone with it."""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from importlib.resources import as_file, files

from pyspark.sql import SparkSession

from lockstep.adapters import java
from lockstep.adapters.connector import connector_jars
from lockstep.adapters.shipping import archive

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore",
}


@cache
def session() -> SparkSession:
    """The one session of this process; under spark-submit its own settings win, else it is local, with all cores.

    It is made in a thread of its own, because in the main one PySpark would take Ctrl-C away from us.
    """
    made: list[SparkSession | Exception] = []
    thread = threading.Thread(target=_make, args=(made,), name="spark", daemon=True)
    thread.start()
    thread.join()
    if isinstance(made[0], Exception):
        raise made[0]
    return made[0]


def _make(made: list[SparkSession | Exception]) -> None:
    try:
        made.append(_build())
    except Exception as error:  # noqa: BLE001 - carried over to the thread that asked
        made.append(error)


def _build() -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    with as_file(files("lockstep.adapters") / "spark.log4j2.properties") as quiet:
        builder = SparkSession.builder
        submitted = "SPARK_ENV_LOADED" in os.environ
        master = os.environ.get("SPARK_MASTER", "local[*]")
        if not submitted:
            os.environ.update(java.exports())
            builder = builder.appName("lockstep").master(master)
            builder = builder.config("spark.driver.memory", os.environ.get("LOCKSTEP_SPARK_MEMORY", "2g"))
            builder = builder.config("spark.jars", ",".join(connector_jars()))
            builder = builder.config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{quiet}")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
        if not submitted and not master.startswith("local"):
            made.sparkContext.addPyFile(archive())  # spark-submit has it among its --py-files
        return made
