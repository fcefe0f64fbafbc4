"""Turns pipelines into DAGs. Only this package and `web` know Airflow."""

from lockstep.airflow.bundle import pipeline_beside
from lockstep.airflow.dag import asset_of, assets_of, dag_for
from lockstep.airflow.fleet.dag import fleet_dag
from lockstep.airflow.fleet.dags import dags_of_all
from lockstep.airflow.history.dag import dags_for, history_for
from lockstep.airflow.hours import hours_of
from lockstep.airflow.upkeep.dag import upkeep_for
from lockstep.airflow.watermark import watermark_of, watermarks_of

__all__ = [
    "asset_of",
    "assets_of",
    "dag_for",
    "dags_for",
    "dags_of_all",
    "fleet_dag",
    "history_for",
    "hours_of",
    "pipeline_beside",
    "upkeep_for",
    "watermark_of",
    "watermarks_of",
]
