"""Opens sessions on a running Spark Connect server, so that a run starts no JVM of its own."""

from __future__ import annotations

import atexit
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

from lockstep.core.errors import Unreachable
from lockstep.core.figures import SERVER, Application, Figures
from lockstep.core.settings import ENVIRONMENT, REMOTE
from lockstep.engine import shipping

if TYPE_CHECKING:
    from collections.abc import Mapping

SUBMITTED = "PYSPARK_GATEWAY_PORT"
CODE = "spark.lockstep.code"  # our code that a server already has, if it was started with it
READY = "spark.lockstep.ready"  # the code that each session was prepared for
CLOSED, ONE_HOUR = "SESSION_CLOSED", 3600
PORT = 15002
CALL_TRIES = 3  # tries of a call, with 0.05, 0.2, 0.8 s between. PySpark's own 15 take ten minutes.
SECONDS_TO_ANSWER = 5


def is_wanted(environ: Mapping[str, str] = ENVIRONMENT) -> bool:
    """Returns True if a server is configured. A submitted driver has a JVM of its own."""
    return bool(environ.get(REMOTE)) and SUBMITTED not in environ


def connected(settings: Mapping[str, str]) -> SparkSession:
    """Returns a session on SPARK_REMOTE's server with this very code. Raises `Unreachable` if it is away."""
    address = ENVIRONMENT[REMOTE]
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
    """Returns the session of an address, and the code that it is ready for.

    The server picks a session if the address has no session id.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - gRPC, only where it is used

    session: Any = SparkSession.builder.remote(address).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=CALL_TRIES)])
    # PySpark 4.2 closes it when the interpreter has ended gRPC's threads, and then waits for them for ever.
    atexit.register(session.client.close)
    return session, session.conf.get(READY, "")


def shared(address: str, code: str, now: float) -> str:
    """Returns the address of the session that all runs of this code share, with warm workers and compiled code.

    It changes each hour, because a server closes an idle session for good. An address with a session id stays as it is.
    """
    if "session_id=" in address:
        return address
    name = uuid5(NAMESPACE_OID, f"lockstep {code} {now // ONE_HOUR:.0f}")
    return f"{address if '/;' in address else address.rstrip('/') + '/'};session_id={name}"


class RemoteJobs:
    """The jobs on a server, each with a tag."""

    def __init__(self, session: SparkSession) -> None:
        self._session: Any = session
        self._slots: int | None = None
        self._begun: set[str] = set()
        self._attempt = ""

    def application(self) -> Application:
        """Returns the server's application, which several clients share. A client is not told of its pages."""
        return Application(str(self._session.conf.get("spark.app.id")))

    def figures(self, attempt: str) -> Figures | None:
        """Returns figures without a number: a server tells its clients no stages."""
        return Figures(SERVER) if attempt == self._attempt else None

    def slots(self) -> int:
        """Returns the number of tasks that run side by side: Spark's default number of parts."""
        if self._slots is None:
            parts = self._session.range(0, 1 << 20).select(F.spark_partition_id().alias("part"))
            self._slots = parts.distinct().count()
        return self._slots

    def begin(self, name: str, _about: str, attempt: str) -> None:
        """Tags the jobs of this thread from here on, so that the name can cancel them."""
        self._attempt = attempt
        self._begun.add(name)
        self._session.clearTags()
        self._session.addTag(name)

    def cancel(self, name: str) -> None:
        """Stops the jobs under the name."""
        self._session.interruptTag(name)

    def cancel_all(self) -> None:
        """Stops the jobs of this client only: other clients may use the session."""
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
