"""Airflow's door to clicks: each run plans, stages, validates, commits and announces one batch."""

from lockstep.airflow import dag_for
from pipelines.clicks import CLICKS

dag = dag_for(CLICKS)
