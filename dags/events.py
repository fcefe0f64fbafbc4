"""Defines the DAGs of events: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.events import EVENTS

dag, history = dags_for(EVENTS)
