"""Defines the DAGs of spend: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.spend import SPEND

dag, history = dags_for(SPEND)
