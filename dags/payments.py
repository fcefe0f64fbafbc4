"""Airflow's door to payments: each run plans, stages, validates, commits and announces one batch."""

from lockstep.airflow import dag_for
from pipelines.payments import PAYMENTS

dag = dag_for(PAYMENTS)
