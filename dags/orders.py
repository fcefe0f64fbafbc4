"""Defines the DAGs of orders: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.orders import ORDERS

dag, history = dags_for(ORDERS)
