"""Starts real servers for a session, shared by all its workers. Each test has its own database and topics."""

from __future__ import annotations

import gc
import itertools
import json
import os
import secrets
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.ledger.migrate import migrate_target
from support.fakes.registry import a_registry
from support.scenes.drill import Drill, write_folder
from support.scenes.odd_logs import marked
from support.servers import (
    airflow_home,  # noqa: F401 - importing it is all, and it comes before any test that imports Airflow
    no_server,
)
from support.servers.servers import Servers, make_topic
from support.skips import pytest_terminal_summary  # noqa: F401 - a hook

NUMBERS = itertools.count()
SESSION = secrets.token_hex(3)  # a process id comes back while servers live on
ONE_AIRFLOW = "tests/dags/one_airflow/"
os.environ.setdefault("LOCKSTEP_JARS", str(Path(__file__).parent.parent / ".lockstep" / "jars"))
# A batch of a test about something else is read in the test's own process, without the seconds that Spark takes to start.
os.environ.setdefault("LOCKSTEP_ENGINE", "process")
# A test's JVM lives for seconds. The first of two compilers is enough, and the JVM starts in half the time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


class ByFile(LoadFileScheduling):
    """A schedule in which a file's tests share a worker, and so a Spark session.

    The matrix, by far the longest file, is shared by lane. The tests of a folder with one Airflow stay together.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ONE_AIRFLOW):
            return ONE_AIRFLOW
        return nodeid.split("-", maxsplit=1)[0] if "_each_of_many_times[" in nodeid else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish():
    """Keeps what collecting has made out of each later look for garbage, and whole where a test forks."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    for item in items:
        if no_server.FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("server")


@pytest.fixture(autouse=True)
def no_server_in_a_fast_test(request):
    """Fails a test that starts a server or a JVM where tests marked `server` are left out, as `make test-fast` does."""
    with no_server.refused(unless="not server" not in request.config.getoption("markexpr")):
        yield


@pytest.fixture(autouse=True)
def same_settings():
    """Fails the test that leaves a setting of Lockstep behind, and not the one that finds it."""
    before = settings()
    yield
    assert settings() == before, "the test leaves other settings of Lockstep than it found"


def settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("LOCKSTEP_")}


@pytest.fixture(scope="session")
def servers(tmp_path_factory, worker_id):
    """Yields the session's servers.

    These are the servers that LOCKSTEP_TEST_HOME keeps up between sessions, or else new ones that end with the session.
    """
    kept = os.environ.get("LOCKSTEP_TEST_HOME")
    shared = tmp_path_factory.getbasetemp() if worker_id == "master" else tmp_path_factory.getbasetemp().parent
    session = Servers(Path(kept) if kept else shared / "servers", keep=bool(kept), in_memory=True)
    session.join()
    yield session
    session.leave()


@pytest.fixture(scope="session")
def postgres(servers):
    """Returns the superuser's DSN of the session's Postgres."""
    return servers.postgres().superuser_dsn


@pytest.fixture(scope="session")
def kafka(servers):
    """Returns the bootstrap address of the session's broker."""
    return servers.kafka().bootstrap


@pytest.fixture
def database(servers, worker_id):
    """Yields the DSN of a fresh, migrated database: a copy of one template, dropped after the test."""
    with servers.database(f"t_{worker_id}_{SESSION}_{next(NUMBERS)}") as dsn:
        yield dsn


@pytest.fixture
def topic(kafka):
    """Returns `topic(partitions=4, **settings)`, which makes a topic and returns its name."""

    def make(partitions: int = 4, **settings: Any) -> str:
        name = f"t-{SESSION}-{next(NUMBERS)}"
        make_topic(kafka, name, partitions, **settings)
        return name

    return make


@pytest.fixture
def produce(kafka):
    """Returns `produce(topic, [(key, value), ...], partition=None, end=None)`. `end` is `commit`, `abort` or `open`."""

    def send(topic: str, records, partition: int = -1, end: str | None = None, **options: Any):
        settings = {"bootstrap.servers": kafka, "linger.ms": 5, "partitioner": "murmur2_random"}
        settings |= {"queue.buffering.max.messages": 1_000_000, **options}
        producer = Producer(settings | ({"transactional.id": f"tx-{SESSION}-{next(NUMBERS)}"} if end else {}))
        if end:
            producer.init_transactions(20)
            producer.begin_transaction()
        last: dict[int, int] = {}

        def delivered(_: Any, sent: Message) -> None:
            last[sent.partition()] = sent.offset()

        for key, value in records:
            producer.produce(topic, value, key, partition=partition, on_delivery=delivered)
        producer.flush(20)
        if end == "commit":
            producer.commit_transaction(20)
        elif end == "abort":
            producer.abort_transaction(20)
        if end in ("commit", "abort"):
            for where, offset in last.items():
                marked(kafka, topic, offset + 2, where)
        return producer

    return send


@pytest.fixture
def registry(monkeypatch):
    """Yields a schema registry that the settings name."""
    with a_registry() as made:
        monkeypatch.setenv("LOCKSTEP_REGISTRY", made.url)
        monkeypatch.setenv("LOCKSTEP_REGISTRY_CONFIG", '{"max.retries": 0}')
        yield made


@pytest.fixture
def drill(database, kafka, topic, produce, tmp_path, monkeypatch):
    name = topic(partitions=3)
    here = Drill(database, kafka, name, write_folder(tmp_path, name))
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(here.home))
    conn = connect(database)
    migrate_target(conn, load("drill"))
    conn.close()
    produce(name, [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(150)])
    yield here
    here.end()
