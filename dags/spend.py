"""Airflow's door to spend: each run plans, stages, validates, commits and announces one batch."""

from lockstep.airflow import dag_for
from pipelines.spend import SPEND

dag = dag_for(SPEND)
