"""Airflow's doors to invoices: one batch a run of the live DAG, and its history."""

from lockstep.airflow import dags_for
from pipelines.invoices import INVOICES

dag, history = dags_for(INVOICES)
