"""Defines the DAGs of payments: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.payments import PAYMENTS

dag, history = dags_for(PAYMENTS)
