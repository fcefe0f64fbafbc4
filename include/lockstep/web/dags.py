"""Reads from Airflow's own database which DAGs are Lockstep's, if they are paused, and who owns them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.models.dag import DagModel, DagTag
from airflow.utils.session import create_session
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from collections.abc import Collection

log = logging.getLogger(__name__)
TAG = "lockstep"  # as `lockstep.airflow` marks the DAGs that it makes
OF_A_PIPELINE = ("live", "history")  # as it marks those of one pipeline. A DAG behind a pipeline has neither.


@dataclass(frozen=True, slots=True)
class KnownDag:
    """A DAG with Lockstep's tag, as Airflow knows it."""

    is_paused: bool
    owners: tuple[str, ...] = ()
    is_of_a_pipeline: bool = True


def known_dags(dag_ids: Collection[str]) -> dict[str, KnownDag]:
    """Returns DAGs by id. Omits those without Lockstep's tag, and those whose file is gone.

    Empty if Airflow's database does not answer: a page then says nothing of its DAGs.
    """
    ours = select(DagTag.dag_id).where(DagTag.name == TAG)
    of_a_pipeline = DagModel.dag_id.in_(select(DagTag.dag_id).where(DagTag.name.in_(OF_A_PIPELINE)))
    asked = select(DagModel.dag_id, DagModel.is_paused, DagModel.owners, of_a_pipeline).where(
        DagModel.dag_id.in_(dag_ids), DagModel.dag_id.in_(ours), DagModel.is_stale.is_(False)
    )
    try:
        with create_session() as session:
            found = session.execute(asked)
            return {
                dag_id: KnownDag(bool(paused), _names(owners), bool(is_ours))
                for dag_id, paused, owners, is_ours in found
            }
    except SQLAlchemyError as error:
        log.warning("Airflow's database does not say which DAGs it has: %s", type(error).__name__)
        return {}


def _names(owners: str | None) -> tuple[str, ...]:
    """Returns the owners of a DAG. Airflow keeps them in one text, with commas between."""
    return tuple(name.strip() for name in (owners or "").split(",") if name.strip())
