"""Writes into a history run's conf which reprocess behavior its backfill has. Airflow itself tells no task.

The scheduler calls it, as a listener of Lockstep's plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

from lockstep.core.planning.history import REPROCESS_FIELD

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

APPROVAL_OPERATOR = "RecordedApproval"  # by its task `approve`, a history DAG is known whatever its id and tags are


@hookimpl
def on_dag_run_running(dag_run: DagRun) -> None:
    """Writes the behavior, in the scheduler's own transaction that starts the run: no task is started before it."""
    if dag_run.backfill is None or dag_run.dag is None:
        return
    approve = dag_run.dag.task_dict.get("approve")
    if approve is not None and approve.task_type == APPROVAL_OPERATOR:
        dag_run.conf = {**(dag_run.conf or {}), REPROCESS_FIELD: str(dag_run.backfill.reprocess_behavior)}
