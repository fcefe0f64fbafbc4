"""Airflow's doors to spend: one batch a run of the live DAG, and its history."""

from lockstep.airflow import dags_for
from pipelines.spend import SPEND

dag, history = dags_for(SPEND)
