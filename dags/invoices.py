"""Airflow's door to invoices: each run plans, stages, validates, commits and announces one batch."""

from lockstep.airflow import dag_for
from pipelines.invoices import INVOICES

dag = dag_for(INVOICES)
