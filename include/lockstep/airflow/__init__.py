"""Airflow's door: a pipeline becomes a DAG; with `web` the only rooms that know Airflow."""

from lockstep.airflow.dag import asset_of, assets_of, dag_for
from lockstep.airflow.history import dags_for, history_for
from lockstep.airflow.hours import hours_of

__all__ = ["asset_of", "assets_of", "dag_for", "dags_for", "history_for", "hours_of"]
