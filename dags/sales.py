"""Defines the DAGs of sales: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.sales import SALES

dag, history = dags_for(SALES)
