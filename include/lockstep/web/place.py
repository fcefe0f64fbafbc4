"""Connects pages to the ledger, read only, and to the broker and its recent answers."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.airflow.connections import dsn, environment
from lockstep.airflow.door import led
from lockstep.core.errors import Refusal
from lockstep.core.names import SUFFIX
from lockstep.core.recorded import recorded
from lockstep.ledger import overview
from lockstep.ledger.migrate import require_migrated
from lockstep.web.known import Remembered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from psycopg2.extensions import cursor

    from lockstep.adapters.kafka import Broker
    from lockstep.core.definition import Pipeline
    from lockstep.core.offsets import TopicView
    from lockstep.ledger.reading import Document
    from lockstep.targets.delivery import Results

POSTGRES, KAFKA = "postgres_default", "kafka_default"
ASKING = "the broker is being asked"
KNOWN = Remembered()
SURROUNDINGS = threading.Lock()  # the environment is one for all threads
LOOKED_AT: set[str] = set()  # ledgers that are of this code's version


@contextmanager
def ledger() -> Iterator[cursor]:
    """Opens a reader's transaction on the ledger. Raises `Refusal` if it is away or of another version."""
    where = dsn(POSTGRES)
    with closing(connect(where, name="lockstep pages")) as conn:
        if where not in LOOKED_AT:
            require_migrated(conn)
            LOOKED_AT.add(where)
        with transaction(conn, READER) as cur:
            yield cur


def broker() -> Broker:
    """Returns the broker of Airflow's connection. Sends no request yet."""
    from lockstep.cli import surroundings

    with SURROUNDINGS, led(environment(POSTGRES, KAFKA)):
        return surroundings.broker()


def recorded_pipeline(name: str) -> Pipeline:
    """Returns the pipeline as the ledger records it. Its author's code runs in tasks, never in this server."""
    with ledger() as cur:
        document = overview.newest_definition(cur, name)
    if document is None:
        raise Refusal(
            f"{name}: nothing was planned yet, and the ledger holds no definition of it",
            next_command=f"lockstep run {name}",
        )
    return recorded(document)


def results_elsewhere(pipeline: Pipeline) -> Results | None:
    """Returns the store of results elsewhere, by Airflow's connection, or None if they are in the ledger's database."""
    from lockstep.cli import surroundings

    with SURROUNDINGS, led(environment(POSTGRES, KAFKA, store=pipeline.store)):
        return surroundings.results_elsewhere(pipeline)


def pipeline_of(dag_id: str) -> str:
    """Returns the pipeline of a DAG: the live DAG has its name, the history DAG its name and `_history`."""
    return dag_id.removesuffix(SUFFIX)


def view_of(topic: str) -> tuple[TopicView | None, str | None]:
    """Returns a topic's bounds of some seconds ago, or the reason why they are unknown."""
    found: tuple[TopicView | None, str | None] | None = KNOWN.get(f"topic {topic}", partial(_view, topic))
    return found or (None, ASKING)


def statuses(names: Iterable[str]) -> dict[str, tuple[Document | None, str | None]]:
    """Returns `lockstep status` of each pipeline of some seconds ago, or the reason why it fails."""
    found = KNOWN.all({f"status {name}": partial(_status, name) for name in names})
    return {name.removeprefix("status "): told or (None, ASKING) for name, told in found.items()}


def count_rejects(names: Iterable[str]) -> dict[str, int | None]:
    """Counts each pipeline's rejects, as of some seconds ago. None while the first count runs."""
    found = KNOWN.all({f"rejects {name}": partial(_rejects, name) for name in names})
    return {name.removeprefix("rejects "): count for name, count in found.items()}


def _rejects(name: str) -> int | None:
    try:
        with ledger() as cur:
            return overview.count_rejects(cur, name)
    except Refusal:
        return None


def _view(topic: str) -> tuple[TopicView | None, str | None]:
    try:
        return broker().view(topic), None
    except Refusal as refusal:
        return None, refusal.message


def _status(name: str) -> tuple[Document | None, str | None]:
    from lockstep.steps.status import status

    try:
        pipeline = recorded_pipeline(name)
        with closing(connect(dsn(POSTGRES), name="lockstep pages")) as conn:
            return status(conn, broker(), pipeline, datetime.now(UTC)), None
    except Refusal as refusal:
        return None, refusal.message


def waits(told: tuple[Any, str | None]) -> bool:
    """Returns True if the broker has not answered yet."""
    return told[1] == ASKING
