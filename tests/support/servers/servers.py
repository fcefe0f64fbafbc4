"""Shares the session's Postgres and Kafka. The first user starts them, and the last one stops them."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import shutil
import tempfile
import time
from base64 import b64encode
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg2.extensions import parse_dsn

from lockstep.adapters.postgres import connect
from lockstep.dev.servers import cluster, kafka, postgres, processes
from lockstep.ledger.migrate import migrate
from support.servers.another_kafka import BROKER_JARS

if TYPE_CHECKING:
    from collections.abc import Iterator

# A tree with other migrations has a template of its own.
TEMPLATE = os.environ.get("LOCKSTEP_TEST_TEMPLATE", "lockstep_template")
MEMORY, ENOUGH = Path("/dev/shm"), 6 * 2**30  # noqa: S108 - bytes that must be free there
AN_HOUR = 3600
SOCKETS = "sockets"


def make_topic(kafka: str, name: str, partitions: int, **settings: Any) -> None:
    """Makes a topic of this name. `cleanup_policy="compact"` and the like are its settings."""
    config = {key.replace("_", "."): str(value) for key, value in settings.items()}
    admin = AdminClient({"bootstrap.servers": kafka})
    for made in admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
        made.result(20)
    # The controller has it. The broker that clients ask learns of it a moment later, on a busy machine a long one.
    until = time.monotonic() + 20
    while _leaders(admin, name) < partitions:
        assert time.monotonic() < until, f"{name} has fewer than {partitions} partitions with a leader after 20 s"
        time.sleep(0.01)


def _leaders(admin: AdminClient, topic: str) -> int:
    found = admin.list_topics(topic, timeout=20).topics[topic].partitions.values()
    return sum(partition.leader >= 0 for partition in found)


def into_memory(folder: Path) -> None:
    """Leads a cluster's data into memory if there is enough.

    Tests make and drop thousands of databases there.
    """
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ENOUGH or cluster.find_cluster(folder):
        return
    for left in MEMORY.glob("lockstep-tests-*"):  # by a session that was killed
        untouched = time.time() - max(file.stat().st_mtime for file in [left, *left.glob("data/*")])
        if untouched > AN_HOUR and not any(processes.working_in(left / "data", "postgres")):
            shutil.rmtree(left, ignore_errors=True)
    place = Path(tempfile.mkdtemp(prefix="lockstep-tests-", dir=MEMORY))
    if owner := cluster.account():
        os.chown(place, owner.uid, owner.gid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster").unlink(missing_ok=True)
    (folder / "cluster").symlink_to(place)


def give_socket(data: Path) -> None:
    """Lets a server in memory be spoken to by a socket, too, from its next start on. Its path there is short enough."""
    place = data / SOCKETS
    place.mkdir()
    if owner := cluster.account():
        os.chown(place, owner.uid, owner.gid)
    with (data / "postgresql.conf").open("a") as settings:
        settings.write(f"unix_socket_directories = '{place}'\n")
    with (data / "pg_hba.conf").open("a") as access:
        access.write("local all all trust\n")


def once_hashed(password: str) -> str:
    """Returns what Postgres keeps of a password, hashed once. It hashes 4,096 times, most of the time of a connection."""

    def keyed(key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, "sha256").digest()

    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    stored = hashlib.sha256(keyed(salted, b"Client Key")).digest()
    salt64, stored64, server64 = (b64encode(each).decode() for each in (salt, stored, keyed(salted, b"Server Key")))
    return f"SCRAM-SHA-256$1:{salt64}${stored64}:{server64}"


class Servers:
    """One folder of servers, used by several test processes at once."""

    def __init__(self, home: Path, *, keep: bool, in_memory: bool = False) -> None:
        self.home = home
        self.keep = keep
        self.in_memory = in_memory
        self.admin: Any = None
        self._server: postgres.Server | None = None

    def join(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        with self._alone():
            self._mark().touch()

    def leave(self) -> None:
        if self.admin:
            self.admin.close()
        with self._alone():
            self._mark().unlink(missing_ok=True)
            if self.keep or list(self.home.glob("user-*")):
                return
            if broker := kafka.running(self.home / "kafka"):
                kafka.stop(broker)
            postgres.remove_server(self.home / "postgres")

    def postgres(self) -> postgres.Server:
        with self._alone():
            return self._postgres()

    def kafka(self) -> kafka.BrokerProcess:
        with self._alone():
            return kafka.start(self.home / "kafka", jar_folder=BROKER_JARS)

    def migrated(self) -> postgres.Server:  # type: ignore[name-defined]
        """Returns Postgres with the template database that tests are copied from."""
        with self._alone():
            server = self._postgres()
            with closing(psycopg2.connect(server.superuser_dsn)) as admin:
                admin.autocommit = True
                cur = admin.cursor()
                cur.execute("select 1 from pg_database where datname = %s", (TEMPLATE,))
                if cur.fetchone() is None:
                    self._make_template(cur, server)
        return server

    @contextmanager
    def database(self, name: str, like: str = f"template {TEMPLATE} strategy file_copy") -> Iterator[str]:
        """Yields the DSN of a fresh, migrated database: a copy of the template, dropped after the block."""
        statement = f"create database {name} owner lockstep {like}"
        if self._server is None or not self._ran(statement):
            self._server = self.migrated()
            self._as_superuser(statement)
        yield re.sub(r"/\w+$", f"/{name}", self._server.dsn)
        self.drop(name)

    @contextmanager
    def empty_database(self, name: str) -> Iterator[str]:
        """Yields the DSN of a database without a ledger, such as a store is, dropped after the block."""
        with self.database(name, like="") as dsn:
            yield dsn

    def near(self, dsn: str) -> str:
        """Returns the same address over the server's socket, if it has one: half the time of a round trip over TCP.

        Nobody is asked for a password there.
        """
        data = self.postgres().data
        if not (data / SOCKETS).is_dir():
            return dsn
        parts = parse_dsn(dsn)
        return f"postgresql://{parts['user']}@/{parts['dbname']}?host={data / SOCKETS}&port={parts['port']}"

    def drop(self, name: str) -> None:
        """Drops a database, even if sessions are connected to it."""
        statement = f"drop database if exists {name} with (force)"
        if not self._ran(statement):
            self._as_superuser(statement)

    def _as_superuser(self, statement: str) -> None:
        """Runs a statement in a new session, which stays open: each login costs a tenth of a database."""
        self.admin = psycopg2.connect(self.postgres().superuser_dsn)
        self.admin.autocommit = True
        self.admin.cursor().execute(statement)

    def _ran(self, statement: str) -> bool:
        """Returns False if no session is left to run the statement in, or no template to copy."""
        if self.admin is None or self.admin.closed:
            return False
        try:
            self.admin.cursor().execute(statement)
        except (psycopg2.OperationalError, psycopg2.InterfaceError, psycopg2.errors.InvalidCatalogName):
            self.admin.close()
            return False
        return True

    def _postgres(self) -> postgres.Server:  # type: ignore[name-defined]
        home = self.home / "postgres"
        if running := postgres.running(home):
            return running
        if self.in_memory:
            into_memory(home / "postgres")
        server = postgres.start(home)
        if not server.data.is_relative_to(MEMORY) or (server.data / SOCKETS).is_dir():
            return server
        postgres.stop(server)
        give_socket(server.data)
        server = postgres.start(home)
        with closing(psycopg2.connect(server.superuser_dsn)) as admin, admin, admin.cursor() as cur:
            for login in (parse_dsn(server.dsn), parse_dsn(server.superuser_dsn)):
                cur.execute(f"alter role {login['user']} password %s", (once_hashed(login["password"]),))
        return server

    def _make_template(self, cur, server: postgres.Server) -> None:  # type: ignore[name-defined]
        cur.execute(f"create database {TEMPLATE}_new owner lockstep")
        conn = connect(re.sub(r"/\w+$", f"/{TEMPLATE}_new", server.dsn))
        migrate(conn)
        conn.close()
        cur.execute(f"alter database {TEMPLATE}_new rename to {TEMPLATE}")

    def _mark(self) -> Path:
        return self.home / f"user-{os.getpid()}"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
