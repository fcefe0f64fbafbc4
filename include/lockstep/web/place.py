"""What a page works with: the ledger, read only, and what the broker said a moment ago."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.airflow.connections import dsn, environment
from lockstep.airflow.door import led
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import TopicView

POSTGRES, KAFKA = "postgres_default", "kafka_default"
SECONDS_KEPT = 5
HISTORY = "_history"


@contextmanager
def ledger() -> Iterator[cursor]:
    """A reader's transaction on the ledger; a ledger that is away is said in one line."""
    try:
        with closing(connect(dsn(POSTGRES), name="lockstep pages")) as conn, transaction(conn, READER) as cur:
            yield cur
    except Refusal as refusal:
        raise HTTPException(503, str(refusal)) from None


def pipeline_of(dag_id: str) -> str:
    """The pipeline that a DAG runs: its live DAG has its name, its history one the same with `_history`."""
    return dag_id.removesuffix(HISTORY)


@dataclass(slots=True)
class Remembered:
    """Answers that are asked for again only when they are some seconds old; one asks while others wait."""

    seconds: float = SECONDS_KEPT
    _kept: dict[str, tuple[float, Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, name: str, ask: Callable[[], Any]) -> Any:
        """The answer of that name."""
        with self._lock:
            at, answer = self._kept.get(name, (0.0, None))
            if not at or time.monotonic() - at > self.seconds:
                answer = ask()
                self._kept[name] = (time.monotonic(), answer)
            return answer


VIEWS = Remembered()


def view_of(topic: str) -> tuple[TopicView | None, str | None]:
    """A topic's bounds as of some seconds ago, or why nobody knows them."""
    found: tuple[TopicView | None, str | None] = VIEWS.get(topic, lambda: _asked(topic))
    return found


def _asked(topic: str) -> tuple[TopicView | None, str | None]:
    from lockstep.cli.surroundings import broker

    try:
        with led(environment(POSTGRES, KAFKA)):
            return broker().view(topic), None
    except Refusal as refusal:
        return None, refusal.message
