"""Defines the DAGs of invoices: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.invoices import INVOICES

dag, history = dags_for(INVOICES)
