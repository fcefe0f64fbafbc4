"""Airflow's doors to orders: one batch a run of the live DAG, and its history."""

from lockstep.airflow import dags_for
from pipelines.orders import ORDERS

dag, history = dags_for(ORDERS)
