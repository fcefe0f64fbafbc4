"""The Spark session: made on first need, kept for the process, quiet, and gone with it."""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

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
    "spark.python.worker.reuse": "true",
}


def connector_jars(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The jars that let Spark read Kafka: below `LOCKSTEP_JARS`, else below the nearest `.lockstep/jars`."""
    places = [Path(environ["LOCKSTEP_JARS"])] if environ.get("LOCKSTEP_JARS") else []
    places += [folder / ".lockstep" / "jars" for folder in (Path.cwd(), *Path.cwd().parents)]
    for place in places:
        if jars := sorted(str(jar) for jar in (place / "connector").glob("*.jar")):
            return jars
    raise Refusal(
        "Spark's Kafka connector is not here: no connector/*.jar in LOCKSTEP_JARS or .lockstep/jars",
        next_command="make jars",
    )


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
        builder = SparkSession.builder.appName("lockstep")
        if "SPARK_ENV_LOADED" not in os.environ:
            builder = builder.master(os.environ.get("SPARK_MASTER", "local[*]"))
            builder = builder.config("spark.driver.memory", os.environ.get("LOCKSTEP_SPARK_MEMORY", "2g"))
            builder = builder.config("spark.jars", ",".join(connector_jars()))
            builder = builder.config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{quiet}")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
