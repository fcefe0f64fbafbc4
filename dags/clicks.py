"""Airflow's doors to clicks: one batch a run of the live DAG, and its history."""

from lockstep.airflow import dags_for
from pipelines.clicks import CLICKS

dag, history = dags_for(CLICKS)
