"""Airflow's door to heartbeats: each run plans, stages, validates, commits and announces one batch."""

from lockstep.airflow import dag_for
from pipelines.heartbeats import HEARTBEATS

dag = dag_for(HEARTBEATS)
