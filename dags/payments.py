"""Airflow's doors to payments: one batch a run of the live DAG, and its history."""

from lockstep.airflow import dags_for
from pipelines.payments import PAYMENTS

dag, history = dags_for(PAYMENTS)
