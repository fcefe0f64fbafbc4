"""Connects pages to the ledger, read only, and to the broker and its recent answers."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.adapters.airflow.connections import connection_dsn, connection_environment
from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.context.environment import environment_set
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.names import SUFFIX
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.ledger.changes.forgotten import renamed
from lockstep.ledger.migrate import require_migrated
from lockstep.ledger.views import overview
from lockstep.web.dags import known_dags
from lockstep.web.known import Remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.adapters.kafka.facts import SurveyedBroker
    from lockstep.core.offsets import LogView, TopicPartition, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.ledger.views.reading import Document
    from lockstep.targets.stores.delivery import Results

POSTGRES_CONNECTION, KAFKA_CONNECTION = "postgres_default", "kafka_default"
PAGES = "lockstep pages"  # the name of their sessions in Postgres
ASKING = "the broker is being asked"
REMEMBERED = Remembered()
ENVIRONMENT_LOCK = threading.Lock()  # the environment is one for all threads
LOOKED_AT: set[str] = set()  # ledgers that are of this code's version


class LedgerAway(Refusal):
    """The refusal of a page whose ledger is away, or of another version."""


@contextmanager
def reading_ledger() -> Iterator[cursor]:
    """Opens a reader's transaction on the ledger. Raises `LedgerAway` if it is away or of another version."""
    with ledger_session() as conn, transaction(conn, READER) as cur:
        yield cur


def ledger_session() -> closing[connection]:
    """Opens a session for several transactions. Raises `LedgerAway` if the ledger is away or of another version."""
    return closing(_connected())


def page_session() -> closing[connection]:
    """Opens a session for what a page asks of steps. Raises `Refusal` if the ledger is away."""
    return closing(connect(connection_dsn(POSTGRES_CONNECTION), name=PAGES))


def _connected() -> connection:
    try:
        where = connection_dsn(POSTGRES_CONNECTION)
        conn = connect(where, name=PAGES)
        try:
            if where not in LOOKED_AT:
                require_migrated(conn)
                LOOKED_AT.add(where)
        except BaseException:
            conn.close()
            raise
    except Refusal as refusal:
        raise LedgerAway(refusal.message, next_command=refusal.next_command) from None
    return conn


def require_pipeline(name: str) -> None:
    """Answers 404 unless the ledger knows the pipeline, or Airflow has a DAG of it."""
    with reading_ledger() as cur:
        if overview.is_recorded(cur, name):
            return
        now = renamed(cur, name)
    if now is not None:
        raise HTTPException(404, f"Pipeline {name} was renamed to {now.pipeline}.")
    if not known_dags([name, f"{name}{SUFFIX}"]):
        raise HTTPException(404, f"There is no pipeline {name}.")


def connection_broker() -> Broker:
    """Returns the broker of Airflow's connection. Sends no request yet."""
    from lockstep.context import systems

    with ENVIRONMENT_LOCK, environment_set(connection_environment(POSTGRES_CONNECTION, KAFKA_CONNECTION)):
        return systems.broker()


def surveyed_connection() -> SurveyedBroker:
    """Returns the broker of Airflow's connection that also tells if it answers."""
    from lockstep.context import systems

    with ENVIRONMENT_LOCK, environment_set(connection_environment(POSTGRES_CONNECTION, KAFKA_CONNECTION)):
        return systems.surveyed_broker()


def recorded_pipeline(name: str) -> Pipeline:
    """Returns the pipeline as the ledger records it. Its author's code runs in tasks, never in this server."""
    with reading_ledger() as cur:
        document = overview.newest_definition(cur, name)
    if document is None:
        require_pipeline(name)
        raise Refusal(
            f"{name}: nothing was planned yet, and the ledger holds no definition of it",
            next_command=f"lockstep run {name}",
        )
    return pipeline_of_document(document)


def connection_results_elsewhere(pipeline: Pipeline) -> Results | None:
    """Returns the store of results elsewhere, by Airflow's connection, or None if they are in the ledger's database."""
    from lockstep.context import systems

    with (
        ENVIRONMENT_LOCK,
        environment_set(connection_environment(POSTGRES_CONNECTION, KAFKA_CONNECTION, store=pipeline.store)),
    ):
        return systems.results_elsewhere(pipeline)


def view_of(topic: str) -> tuple[TopicView | None, str | None]:
    """Returns a topic's bounds of some seconds ago, or the reason why they are unknown."""
    found: tuple[TopicView | None, str | None] | None = REMEMBERED.get(f"topic {topic}", partial(_view, topic))
    return found or (None, ASKING)


def statuses(names: Iterable[str]) -> dict[str, tuple[Document | None, str | None]]:
    """Returns `lockstep status` of each pipeline of some seconds ago, or the reason why it fails."""
    found = REMEMBERED.all({f"status {name}": partial(_status, name) for name in names})
    return {name.removeprefix("status "): told or (None, ASKING) for name, told in found.items()}


def remembered_rejects(names: Iterable[str]) -> dict[str, int | None]:
    """Counts each pipeline's rejects, as of some seconds ago. None while the first count runs."""
    found = REMEMBERED.all({f"rejects {name}": partial(_rejects, name) for name in names})
    return {name.removeprefix("rejects "): count for name, count in found.items()}


def remembered(question: str, ask: Callable[[], Any]) -> Any | None:
    """Returns the answer of some seconds ago to a question of a page's own. None while it is asked for the first time."""
    return REMEMBERED.get(question, ask)


def views_of(name: str, topics: Iterable[str]) -> tuple[LogView | None, str | None]:
    """Returns the bounds of a pipeline's topics of some seconds ago, or the reason why they are unknown."""
    names = sorted(set(topics))
    if len(names) == 1:
        return view_of(names[0])
    found: tuple[LogView | None, str | None] | None = REMEMBERED.get(f"topics of {name}", partial(_views, names))
    return found or (None, ASKING)


def _views(topics: list[str]) -> tuple[LogView | None, str | None]:
    try:
        return connection_broker().topic_views(topics), None
    except Refusal as refusal:
        return None, refusal.message


def waiting_since(name: str, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, datetime]:
    """Returns, per partition, the time of the first record that waits, of some seconds ago. Omits unknown ones."""
    found = REMEMBERED.get(f"waiting {name}", partial(_first_times, positions)) if positions else None
    return found or {}


def _first_times(positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, datetime]:
    try:
        return {
            at: moment for at, moment in connection_broker().first_times_of(positions).items() if moment is not None
        }
    except Refusal:
        return {}


def _rejects(name: str) -> int | None:
    try:
        with reading_ledger() as cur:
            return overview.count_rejects(cur, name)
    except Refusal:
        return None


def _view(topic: str) -> tuple[TopicView | None, str | None]:
    try:
        return connection_broker().view(topic), None
    except Refusal as refusal:
        return None, refusal.message


def _status(name: str) -> tuple[Document | None, str | None]:
    from lockstep.steps.inspect.status import status

    try:
        pipeline = recorded_pipeline(name)
        with page_session() as conn:
            return status(conn, connection_broker(), pipeline, datetime.now(UTC)), None
    except Refusal as refusal:
        return None, refusal.message


def waits(told: tuple[Any, str | None]) -> bool:
    """Returns True if the broker has not answered yet."""
    return told[1] == ASKING
