"""Defines the DAGs of heartbeats: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.heartbeats import HEARTBEATS

dag, history = dags_for(HEARTBEATS)
