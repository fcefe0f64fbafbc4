"""Airflow's door to orders: each run plans, stages, validates, commits and announces one batch."""

from lockstep.airflow import dag_for
from pipelines.orders import ORDERS

dag = dag_for(ORDERS)
