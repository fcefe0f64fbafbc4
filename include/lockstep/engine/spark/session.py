"""Creates the quiet Spark session when it is first needed. It lives as long as the process."""

from __future__ import annotations

import logging
import os
import sys
import threading
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from lockstep.adapters import java
from lockstep.adapters.withheld import FROM_PROGRAMS, withheld
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.settings import ENVIRONMENT
from lockstep.engine import shipping
from lockstep.engine.spark import connect as spark_connect
from lockstep.engine.spark import jvm
from lockstep.faults import ARMED_BY

TELLERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")  # they print what we raise
LOG = "LOCKSTEP_SPARK_LOG"


@cache
def session() -> SparkSession:
    """Returns the one session of this process.

    That is the submitted one, else one on SPARK_REMOTE's server, else SPARK_MASTER's, or local. Makes it in a thread of
    its own, because in the main one PySpark would take over Ctrl-C. Raises `Unreachable` if Spark does not start.
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
        made.append(_begun())
    except Exception as error:  # noqa: BLE001 - carried over to the thread that asked
        made.append(error)


def _begun() -> SparkSession:
    for name in TELLERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    if spark_connect.SUBMITTED in ENVIRONMENT:
        return _submitted()
    return spark_connect.connected(jvm.JVM_SETTINGS) if spark_connect.is_wanted() else _launched()


def _submitted() -> SparkSession:
    """Returns the submitted session. Its own settings win."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - else SparkConf would not know what was submitted
    given = SparkConf()
    settings = jvm.settings() | {"spark.log.level": "OFF"} | _daemon(given.get("spark.master") or "")
    made = _built({name: value for name, value in settings.items() if not given.contains(name)})
    if not (given.get("spark.master") or "").startswith("local") and not given.get("spark.submit.pyFiles"):
        made.sparkContext.addPyFile(shipping.archive())  # on a cluster's machine the driver alone has our code
    return made


def _launched() -> SparkSession:
    master = ENVIRONMENT.get("SPARK_MASTER", "local[*]")
    settings = jvm.settings() | {
        "spark.master": master,
        "spark.driver.memory": ENVIRONMENT.get("LOCKSTEP_SPARK_MEMORY", "2g"),
        "spark.app.name": "lockstep",
        "spark.driver.extraJavaOptions": jvm.driver_options(verbose=bool(ENVIRONMENT.get(LOG))),
    }
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= _daemon(master)
    else:
        settings["spark.submit.pyFiles"] = shipping.archive()
        if ARMED_BY in ENVIRONMENT:
            settings[f"spark.executorEnv.{ARMED_BY}"] = ENVIRONMENT[ARMED_BY]
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.update(java.exports())
    with _log() as log:
        try:
            conf = SparkConf().setAll(list(settings.items()))
            with withheld(of=FROM_PROGRAMS):  # what a transform runs in has none of our logins
                gateway = launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]
        except PySparkException as error:
            raise Unreachable(f"Spark does not start: {_reason(log) or error}", next_command="java -version") from None
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - the way to a JVM whose output is ours
    return _built(settings)


def _daemon(master: str) -> dict[str, str]:
    """Returns the setting for workers with warm imports, if the code is installed and need not be shipped."""
    return {"spark.python.daemon.module": "lockstep.worker_daemon"} if master.startswith("local") else {}


def _built(settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _reason(log: IO[bytes]) -> str | None:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return next((line for line in lines if not line.startswith("WARNING: ")), None)


def _log() -> IO[bytes]:
    """Opens the JVM's log file. Without LOCKSTEP_SPARK_LOG it is temporary and ends with the JVM."""
    if not (place := ENVIRONMENT.get(LOG, "").strip()):
        return TemporaryFile()
    try:
        return Path(place).open("a+b")
    except OSError as error:
        raise Refusal(
            f"{LOG}: the file {place} cannot be written: {error.strerror}",
            next_command=f"set {LOG} to a file that may be written",
        ) from None
