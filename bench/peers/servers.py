"""Runs a broker and a database for the bench alone, which are gone after the block."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import sys
import tempfile
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg2

from lockstep.adapters.postgres import connect
from lockstep.dev.servers import kafka, ports, postgres
from lockstep.dev.setup.jars import broker_jars
from lockstep.ledger.migrate import migrate
from peers.contender import Place, cores
from peers.jars import FOLDER
from peers.settings import share

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def servers() -> Iterator[Place]:
    """Yields Postgres with an empty ledger, and Kafka, with the embedded stack's settings.

    The settings are the same for all sessions.
    """
    signal.signal(signal.SIGTERM, _ended)
    home = Path(tempfile.mkdtemp(prefix="lockstep-bench-"))
    try:
        server, broker = postgres.start(home), kafka.start(home, ports.choose(home))
        share(server.superuser_dsn)
        with closing(connect(server.dsn)) as conn:
            migrate(conn)
        yield Place(home, broker.bootstrap, server.dsn, server.superuser_dsn, server.process.pid, FOLDER)
    finally:
        if started := kafka.running(home):
            kafka.kill(started)
        postgres.remove_server(home)
        shutil.rmtree(home, ignore_errors=True)


def machine(place: Place) -> dict[str, Any]:
    """Describes the machine, the place and the time."""
    with closing(psycopg2.connect(place.dsn)) as conn, conn.cursor() as cur:
        cur.execute("show server_version")
        (database,) = cur.fetchone() or ("",)
    return {
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
        "cores": cores(),
        "memory GiB": round(psutil.virtual_memory().total / (1 << 30)),
        "processor": platform.processor() or platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 1),
        "Python": platform.python_version(),
        "Spark": version("pyspark"),
        "Postgres": database.split()[0],
        "Kafka": next(broker_jars().glob("kafka_*.jar")).stem.rpartition("-")[2],
        "pyarrow": version("pyarrow"),
    }


def _ended(*_: Any) -> None:
    """Exits at a signal to end, which also stops the servers."""
    sys.exit(1)
