"""Spark Connect: a session on a server that is warm already, so that a run starts no JVM of its own."""

from __future__ import annotations

import os
import socket
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import NAMESPACE_OID, uuid5

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.adapters import shipping
from lockstep.core.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

REMOTE = "SPARK_REMOTE"  # as PySpark calls it: sc://HOST:PORT/;PARAMETERS
SUBMITTED = "PYSPARK_GATEWAY_PORT"
CODE = "spark.lockstep.code"  # what a server has of our code already, if it was started with it
READY = "spark.lockstep.ready"  # for which code a session has our settings and our code
CLOSED, HOUR = "SESSION_CLOSED", 3600
PORT = 15002
TRIES = 3  # of a call, with 0.05, 0.2, 0.8 s between; PySpark's own 15 take ten minutes
SECONDS_TO_ANSWER = 5


def is_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a server is to be used; a driver that was submitted has a JVM of its own."""
    return bool(environ.get(REMOTE)) and SUBMITTED not in environ


def connected(settings: Mapping[str, str]) -> SparkSession:
    """A session on the server of SPARK_REMOTE, whose workers run this very code; raises `Unreachable` when it is away."""
    address = os.environ[REMOTE]
    _require_an_answer(address)
    warnings.filterwarnings("ignore", message=".*RETRIES_EXCEEDED")  # it is said in one line, by us
    code = Path(shipping.archive())
    try:
        session, ready_for = _attached(shared(address, code.name, time.time()))
    except PySparkException as error:
        if CLOSED not in str(error):
            raise
        session, ready_for = _attached(address)
    if ready_for != code.name:
        for name, value in settings.items():
            if session.conf.isModifiable(name):
                session.conf.set(name, value)
        if session.conf.get(CODE, "") != code.name:
            session.addArtifacts(str(code), pyfile=True)
        session.conf.set(READY, code.name)
    return session  # type: ignore[no-any-return]


def _attached(address: str) -> tuple[Any, str]:
    """The session of an address, the server's own choice where it names none, and for which code it is ready."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - gRPC, only where it is used

    session: Any = SparkSession.builder.remote(address).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=TRIES)])
    return session, session.conf.get(READY, "")


def shared(address: str, code: str, now: float) -> str:
    """The address of the session that all runs of this code share: its workers, and what it has compiled, are warm, too.

    Another each hour, for a server closes one that was idle for so long, and closes it for good. An address that names
    a session stays as it is.
    """
    if "session_id=" in address:
        return address
    name = uuid5(NAMESPACE_OID, f"lockstep {code} {now // HOUR:.0f}")
    return f"{address if '/;' in address else address.rstrip('/') + '/'};session_id={name}"


class RemoteJobs:
    """Work on a server, known there by a tag."""

    def __init__(self, session: SparkSession) -> None:
        self._session: Any = session
        self._slots: int | None = None
        self._begun: set[str] = set()

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
        self._begun.add(name)
        self._session.clearTags()
        self._session.addTag(name)

    def cancel(self, name: str) -> None:
        """Stops what runs under the name."""
        self._session.interruptTag(name)

    def cancel_all(self) -> None:
        """Others may be at work in the session: what was begun here stops."""
        for name in self._begun:
            self.cancel(name)


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
