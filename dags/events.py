"""Airflow's doors to events: one batch a run of the live DAG, and its history."""

from lockstep.airflow import dags_for
from pipelines.events import EVENTS

dag, history = dags_for(EVENTS)
