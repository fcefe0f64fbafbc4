"""Defines the DAGs of baskets: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.baskets import BASKETS

dag, history = dags_for(BASKETS)
