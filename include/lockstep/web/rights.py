"""Decides which pipelines a reader may see: those that a DAG has run which the reader may read.

Airflow guards DAGs, and a page shows a pipeline. The author of a DAG file chooses its id, so that an id proves nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastapi import HTTPException

from lockstep.adapters.airflow.connections import connection_dsn
from lockstep.core.settings import ENVIRONMENT
from lockstep.ledger.views import overview
from lockstep.web.dags import known_dags
from lockstep.web.place import POSTGRES_CONNECTION, reading_ledger

if TYPE_CHECKING:
    from collections.abc import Collection

NAMED = "LOCKSTEP_PAGES"
EVERY_PIPELINE = "*"
REMEMBERED_SECONDS = 10.0
MOST_REMEMBERED = 10_000  # pipelines

_ran: dict[tuple[str, str], tuple[float, frozenset[str] | None]] = {}


def require_shown(pipeline: str, readable: Collection[str]) -> None:
    """Answers 404 unless the reader may see the pipeline's pages."""
    if not shown_pipelines([pipeline], readable):
        raise HTTPException(
            404,
            f"Pipeline {pipeline}: none of the DAGs that you may read has run it here. "
            f"Its pages are there after the first run of its DAG, or if {NAMED} of Airflow's API server names it.",
        )


def shown_pipelines(pipelines: Collection[str], readable: Collection[str]) -> set[str]:
    """Returns those whose pages a reader of these DAGs may see.

    A DAG with Lockstep's tag that the reader may read has tried a batch of it, or LOCKSTEP_PAGES names it. A pipeline
    without any attempt has nothing to hide.
    """
    named = {name.strip() for name in ENVIRONMENT.get(NAMED, "").split(",")}
    if EVERY_PIPELINE in named:
        return set(pipelines)
    ran = _ran_by([name for name in pipelines if name not in named])
    ours = known_dags({dag for dags in ran.values() for dag in dags or () if dag in readable})
    return {name for name in pipelines if name in named or ran[name] is None or (ran[name] or set()) & ours.keys()}


def _ran_by(pipelines: Collection[str]) -> dict[str, frozenset[str] | None]:
    """Returns what the ledger said some seconds ago, or says now."""
    where, now = connection_dsn(POSTGRES_CONNECTION), time.monotonic()
    known = {name: _ran[where, name] for name in pipelines if (where, name) in _ran}
    found = {name: dags for name, (then, dags) in known.items() if then > now - REMEMBERED_SECONDS}
    if asked := [name for name in pipelines if name not in found]:
        with reading_ledger() as cur:
            found |= (said := overview.ran_by(cur, asked))
        if len(_ran) > MOST_REMEMBERED:
            _ran.clear()
        _ran.update({(where, name): (now, dags) for name, dags in said.items()})
    return found
