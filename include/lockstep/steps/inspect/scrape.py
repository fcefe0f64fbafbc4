"""Looks at every pipeline within a bounded time, even if ledger or broker do not answer."""

from __future__ import annotations

import threading
import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.errors import Refusal
from lockstep.core.health.health import HealthFacts, health_word, judge_health
from lockstep.core.lake.iceberg import lake_places
from lockstep.ledger.lake.told import newest_moves
from lockstep.ledger.migrate import require_migrated
from lockstep.ledger.views import overview
from lockstep.ledger.views.engine_offsets import EngineOffsets
from lockstep.steps.inspect.status import known_of, status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.facts import SurveyedBroker
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.ledger.views.reading import Document

SCRAPE_PATIENCE = 8.0  # seconds of one scrape; Prometheus gives up after ten
PIPELINES_SIDE_BY_SIDE = 4  # pipelines that are asked about side by side, each over a connection of its own
LEDGER, KAFKA_PART = "ledger", "kafka"
TIMEOUT = "Timeout"
BLANK: Document = {"streams": [], "warnings": [], "lag_records": None, "oldest_waiting_seconds": None}
BLANK |= {"behind_after_seconds": None}


@dataclass(frozen=True, slots=True)
class Sources:
    """The way to ledger, broker and definitions. `dags` are the pipelines, each with its DAG's pause if it is known.

    `definition` returns None for a pipeline whose definition is not known before its first plan.
    """

    ledger: Callable[[], connection]
    broker: Callable[[], SurveyedBroker]
    dags: Callable[[], Mapping[str, bool | None]]
    definition: Callable[[connection, str], Pipeline | None]


@dataclass(slots=True)
class _Round:
    """One look at everything. Its threads end by themselves, and what they find is here at once."""

    dags: Mapping[str, bool | None] = field(default_factory=dict)
    systems: dict[str, BaseException | None] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)
    told: dict[str, Document | BaseException] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)


def scraped_ledger(dsn: str) -> connection:
    """Connects to a ledger of this code's version."""
    conn = connect(dsn, name="lockstep metrics")
    try:
        require_migrated(conn)
    except BaseException:
        conn.close()
        raise
    return conn


class Scraper:
    """Answers scrapes, and lets those share a look that come while it is still under way."""

    def __init__(self, sources: Sources, patience: float = SCRAPE_PATIENCE) -> None:
        self._sources, self._patience = sources, patience
        self._lock = threading.Lock()
        self._round: _Round | None = None
        self._dags: Mapping[str, bool | None] = {}
        self._errors: dict[str, Document] = {}
        self._offsets = EngineOffsets()

    def scrape(self) -> Document:
        """Returns, within the patience, `up` of each system, its last error, and each pipeline with its health.

        A system that has not answered by then is unknown, with the error `Timeout`.
        """
        began = time.monotonic()
        with self._lock:
            if self._round is None or self._round.over.is_set():
                self._round = _Round(dags=self._dags)
                threading.Thread(target=self._look, args=(self._round,), daemon=True).start()
            current = self._round
        current.over.wait(self._patience)
        now = datetime.now(UTC)
        up = {system: self._is_up(current, system, now) for system in (LEDGER, KAFKA_PART)}
        with self._lock:
            errors = [self._errors[system] for system in sorted(self._errors)]
        return {
            "at": now,
            "seconds": round(time.monotonic() - began, 3),
            "up": up,
            "last_errors": errors,
            "pipelines": [_pipeline(current, name) for name in sorted(current.dags)],
        }

    def _is_up(self, current: _Round, system: str, now: datetime) -> bool:
        error = current.systems.get(system, TimeoutError())
        if error is not None:
            with self._lock:
                self._errors[system] = {"system": system, "error": _class(error), "at": now}
        return error is None

    def _look(self, current: _Round) -> None:
        try:
            current.dags = self._dags = dict(self._sources.dags())
        except Exception as error:  # noqa: BLE001 - a scrape answers, whatever happens; the pipelines are the last known
            current.systems[LEDGER] = error
        asked: list[SurveyedBroker] = []
        _all([lambda: self._ask_ledger(current), lambda: self._ask_broker(current, asked)])
        if current.systems.get(LEDGER, TimeoutError()) is None:
            names: SimpleQueue[str] = SimpleQueue()
            for name in current.dags:
                names.put(name)
            workers = min(PIPELINES_SIDE_BY_SIDE, len(current.dags)) if asked else 0
            look = [lambda: self._work(current, asked[0], names)] * workers
            _all([lambda: self._count(current), *look])
        current.over.set()

    def _ask_ledger(self, current: _Round) -> None:
        try:
            with closing(self._sources.ledger()) as conn, transaction(conn, READER) as cur:
                current.rows = {row.name: row for row in overview.pipelines(cur, list(current.dags))}
            current.systems.setdefault(LEDGER, None)
        except Exception as error:  # noqa: BLE001 - the same
            current.systems[LEDGER] = error

    def _count(self, current: _Round) -> None:
        """Counts offsets over a connection of its own. A ledger that went away meanwhile is known by the other looks."""
        with suppress(Exception), closing(self._sources.ledger()) as conn, transaction(conn, READER) as cur:
            current.offsets = self._offsets.count(cur, list(current.dags), self._patience / 2)

    def _ask_broker(self, current: _Round, asked: list[SurveyedBroker]) -> None:
        try:
            broker = self._sources.broker()
            broker.answers()
            asked.append(broker)
            current.systems[KAFKA_PART] = None
        except Exception as error:  # noqa: BLE001 - the same
            current.systems[KAFKA_PART] = error

    def _work(self, current: _Round, broker: SurveyedBroker, names: SimpleQueue[str]) -> None:
        name = ""
        try:
            with closing(self._sources.ledger()) as conn:
                while True:
                    name = names.get_nowait()
                    current.told[name] = self._of_one(conn, broker, current, name)
        except Empty:
            return
        except Exception as error:  # noqa: BLE001 - the same
            current.systems[LEDGER] = error

    def _of_one(self, conn: connection, broker: SurveyedBroker, current: _Round, name: str) -> Document | BaseException:
        try:
            pipeline = self._sources.definition(conn, name)
            if pipeline is None:
                return BLANK
            found = status(conn, broker, pipeline, datetime.now(UTC), dag_paused=current.dags[name])
            return found | {"lake": _of_lake(conn, pipeline)}
        except Exception as error:  # noqa: BLE001 - one pipeline's mistake hides no other
            return error


def _of_lake(conn: connection, pipeline: Pipeline) -> list[Document]:
    if not lake_places(pipeline.targets):
        return []
    with transaction(conn, READER) as cur:
        return newest_moves(cur, pipeline.name)


def _all(jobs: Iterable[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _pipeline(current: _Round, name: str) -> Document:
    """Returns what is known of one pipeline: numbers from its status, and the health of all that answered."""
    row, told, dag_paused = current.rows.get(name), current.told.get(name), current.dags[name]
    away = next((error for error in current.systems.values() if error is not None), None)
    error = told if isinstance(told, BaseException) else None if told else (away or TimeoutError())
    seen = told if isinstance(told, dict) else None
    known = (
        known_of(row, dag_paused=dag_paused)
        if row
        else HealthFacts(name, planned=True, paused=False, dag_paused=dag_paused)
    )
    conditions = judge_health(known, seen, None if error is None else _said(error))
    return {
        "pipeline": name,
        "up": error is None,
        "error": _class(error) if error else None,
        "health": health_word(conditions),
        "conditions": [asdict(each) for each in conditions],
        **_numbers(seen or BLANK),
        "complete_through": row.complete_through if row else None,
        "last_commit": row.last_at if row else None,
        "offsets": current.offsets.get(name),
        "feeds": row.feeds if row else None,
        "watermark_lag_seconds": (seen or BLANK).get("watermark_lag_seconds"),
        "windows": (seen or BLANK).get("windows"),
        "lake": (seen or BLANK).get("lake"),
        "jvm_heap_peak_bytes": row.heap_peak_bytes if row else None,
        "jvm_heap_limit_bytes": row.heap_limit_bytes if row else None,
        "jvm_gc_seconds": row.gc_seconds if row else None,
        "unfinished": len(known.work) if row else None,
        "interrupted": sum(work.is_interrupted for work in known.work) if row else None,
    }


def _numbers(seen: Document) -> Document:
    """Returns sums and extremes over the partitions, by the rules of the metrics that a run emits."""
    columns = ("lag_records", "lag_seconds", "headroom_records", "headroom_seconds", "holes")
    known = {name: [s[name] for s in seen["streams"] if s[name] is not None] for name in columns}
    return {
        "lag_records": sum(known["lag_records"]) if known["lag_records"] else seen["lag_records"],
        "lag_seconds": max(known["lag_seconds"], default=None),
        "oldest_waiting_seconds": seen["oldest_waiting_seconds"],
        "behind_after_seconds": seen["behind_after_seconds"],
        "headroom_records": min(known["headroom_records"], default=None),
        "headroom_seconds": min(known["headroom_seconds"], default=None),
        "holes": sum(known["holes"]) if seen is not BLANK else None,
    }


def _class(error: BaseException) -> str:
    return TIMEOUT if isinstance(error, TimeoutError) else type(error).__name__


def _said(error: BaseException) -> str:
    return error.message if isinstance(error, Refusal) else f"no answer: {_class(error)}"
