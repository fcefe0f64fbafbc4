"""Airflow's door to events: each run plans, commits range by range, closes and announces one batch."""

from lockstep.airflow import dag_for
from pipelines.events import EVENTS

dag = dag_for(EVENTS)
