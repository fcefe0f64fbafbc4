"""Airflow's doors to heartbeats: one batch a run of the live DAG, and its history."""

from lockstep.airflow import dags_for
from pipelines.heartbeats import HEARTBEATS

dag, history = dags_for(HEARTBEATS)
