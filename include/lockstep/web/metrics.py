"""Answers Prometheus in Airflow's own server, with the pipelines of the DAGs that the reader may see."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from lockstep.adapters.airflow.connections import connection_dsn
from lockstep.adapters.postgres import READER, transaction
from lockstep.adapters.prometheus import exposition
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.ledger.views import overview
from lockstep.steps.inspect.scrape import Scraper, Sources, scraped_ledger
from lockstep.web.dags import known_dags
from lockstep.web.place import POSTGRES_CONNECTION, reading_ledger, surveyed_connection
from lockstep.web.rights import shown_pipelines

if TYPE_CHECKING:
    from collections.abc import Collection

    from psycopg2.extensions import connection

    from lockstep.core.pipeline.definition import Pipeline

MOST_READERS = 50  # readers with different rights, each with scrapes of its own
SCRAPERS: dict[frozenset[str], Scraper] = {}
READERS_LOCK = threading.Lock()


def metrics(dag_ids: Collection[str], accept: str) -> tuple[bytes, str]:
    """Returns one scrape in the format that the header Accept asks for, with its content type."""
    readable = frozenset(dag_ids)
    with READERS_LOCK:
        if readable not in SCRAPERS and len(SCRAPERS) >= MOST_READERS:
            SCRAPERS.clear()
        sources = Sources(
            lambda: scraped_ledger(connection_dsn(POSTGRES_CONNECTION)),
            surveyed_connection,
            partial(_dags, readable),
            _definition,
        )
        scraper = SCRAPERS.setdefault(readable, Scraper(sources))
    return exposition(scraper.scrape, accept)


def _dags(readable: frozenset[str]) -> dict[str, bool | None]:
    """Returns the pipelines that the page has: those with a DAG of Lockstep's, and those that the ledger knows."""
    names = {pipeline_of_dag(dag_id) for dag_id in readable}
    with suppress(Refusal):  # without the ledger nothing is known of a pipeline but its DAG
        names = shown_pipelines(names, readable)
    paused = {name: dag.is_paused for name, dag in known_dags(names).items()}
    found: dict[str, bool | None] = dict(paused)
    try:
        with reading_ledger() as cur:
            found |= {row.name: paused.get(row.name) for row in overview.pipelines(cur, sorted(names)) if row.recorded}
    except Refusal:
        return found
    return found


def _definition(conn: connection, name: str) -> Pipeline | None:
    with transaction(conn, READER) as cur:
        document = overview.newest_definition(cur, name)
    return pipeline_of_document(document) if document else None
