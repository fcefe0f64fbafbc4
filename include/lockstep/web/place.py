"""What a page works with: the ledger, read only, and what the broker said a moment ago."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.airflow.connections import dsn, environment
from lockstep.airflow.door import led
from lockstep.core.errors import Refusal, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg2.extensions import cursor

    from lockstep.adapters.kafka import Broker
    from lockstep.core.offsets import TopicView
    from lockstep.ledger.reading import Document

POSTGRES, KAFKA = "postgres_default", "kafka_default"
SECONDS_KEPT = 5
HISTORY = "_history"


@contextmanager
def ledger() -> Iterator[cursor]:
    """A reader's transaction on the ledger; a ledger that is away is said in one line."""
    try:
        with closing(connect(dsn(POSTGRES), name="lockstep pages")) as conn, transaction(conn, READER) as cur:
            yield cur
    except Unreachable as away:
        raise HTTPException(503, str(away)) from None


@contextmanager
def broker() -> Iterator[Broker]:
    """The broker, with Airflow's connection behind it."""
    from lockstep.cli import surroundings

    with led(environment(POSTGRES, KAFKA)):
        yield surroundings.broker()


def pipeline_of(dag_id: str) -> str:
    """The pipeline that a DAG runs: its live DAG has its name, its history one the same with `_history`."""
    return dag_id.removesuffix(HISTORY)


@dataclass(slots=True)
class Remembered:
    """Answers of some seconds ago: what is older is shown once more while it is asked for anew."""

    seconds: float = SECONDS_KEPT
    _kept: dict[str, tuple[float, Any]] = field(default_factory=dict)
    _asking: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, name: str, ask: Callable[[], Any]) -> Any:
        """The answer of that name; waits for it only where there is none yet."""
        with self._lock:
            at, answer = self._kept.get(name, (None, None))
            due = at is not None and time.monotonic() - at > self.seconds and name not in self._asking
            if due:
                self._asking.add(name)
        if at is None:
            return self._ask(name, ask)
        if due:
            threading.Thread(target=self._ask, args=(name, ask), daemon=True).start()
        return answer

    def _ask(self, name: str, ask: Callable[[], Any]) -> Any:
        try:
            answer = ask()
            with self._lock:
                self._kept[name] = (time.monotonic(), answer)
            return answer
        finally:
            with self._lock:
                self._asking.discard(name)


KNOWN = Remembered()


def view_of(topic: str) -> tuple[TopicView | None, str | None]:
    """A topic's bounds as of some seconds ago, or why nobody knows them."""
    found: tuple[TopicView | None, str | None] = KNOWN.get(f"topic {topic}", lambda: _view(topic))
    return found


def status_of(name: str) -> tuple[Document | None, str | None]:
    """What `lockstep status` says of a pipeline as of some seconds ago, or why it cannot."""
    found: tuple[Document | None, str | None] = KNOWN.get(f"status {name}", lambda: _status(name))
    return found


def _view(topic: str) -> tuple[TopicView | None, str | None]:
    try:
        with broker() as kafka:
            return kafka.view(topic), None
    except Refusal as refusal:
        return None, refusal.message


def _status(name: str) -> tuple[Document | None, str | None]:
    from lockstep.adapters.folders import load
    from lockstep.steps.status import status

    try:
        with broker() as kafka, closing(connect(dsn(POSTGRES), name="lockstep pages")) as conn:
            return status(conn, kafka, load(name).pipeline, datetime.now(UTC)), None
    except Refusal as refusal:
        return None, refusal.message
