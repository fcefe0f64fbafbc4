"""Spark Connect: a session on a server that is warm already, so that a run starts no JVM of its own."""

from __future__ import annotations

import os
import socket
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.adapters import shipping
from lockstep.core.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

REMOTE = "SPARK_REMOTE"  # as PySpark calls it: sc://HOST:PORT/;PARAMETERS
SUBMITTED = "PYSPARK_GATEWAY_PORT"
CODE = "spark.lockstep.code"  # what a server has of our code already, if it was started with it
PORT = 15002
TRIES = 3  # of a call, with 0.05, 0.2, 0.8 s between; PySpark's own 15 take ten minutes
SECONDS_TO_ANSWER = 5


def is_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a server is to be used; a driver that was submitted has a JVM of its own."""
    return bool(environ.get(REMOTE)) and SUBMITTED not in environ


def connected(settings: Mapping[str, str]) -> SparkSession:
    """A session on the server of SPARK_REMOTE, whose workers run this very code; raises `Unreachable` when it is away."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - gRPC, only where it is used

    address = os.environ[REMOTE]
    _require_an_answer(address)
    warnings.filterwarnings("ignore", message=".*RETRIES_EXCEEDED")  # it is said in one line, by us
    session: Any = SparkSession.builder.remote(address).getOrCreate()
    session.client.set_retry_policies([DefaultPolicy(max_retries=TRIES)])
    for name, value in settings.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    code = Path(shipping.archive())
    if session.conf.get(CODE, "") != code.name:
        session.addArtifacts(str(code), pyfile=True)
    return session  # type: ignore[no-any-return]


class RemoteJobs:
    """Work on a server, known there by a tag."""

    def __init__(self, session: SparkSession) -> None:
        self._session: Any = session
        self._slots: int | None = None

    def application_id(self) -> str | None:
        """The server's application, which several clients share."""
        return str(self._session.conf.get("spark.app.id"))

    def slots(self) -> int:
        """How many tasks run side by side: into so many parts Spark cuts what has no parts of its own."""
        if self._slots is None:
            parts = self._session.range(0, 1 << 20).select(F.spark_partition_id().alias("part"))
            self._slots = parts.distinct().count()
        return self._slots

    def begin(self, name: str, _about: str) -> None:
        """What follows in this thread can be cancelled by this name."""
        self._session.clearTags()
        self._session.addTag(name)

    def cancel(self, name: str) -> None:
        """Stops what runs under the name."""
        self._session.interruptTag(name)


def _require_an_answer(address: str) -> None:
    place = urlsplit(address)
    try:
        socket.create_connection((place.hostname or "", place.port or PORT), SECONDS_TO_ANSWER).close()
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise Unreachable(
            f"Spark Connect at {place.hostname}:{place.port or PORT} does not answer: {what}",
            next_command="lockstep dev up --spark-connect, or unset SPARK_REMOTE",
        ) from None
