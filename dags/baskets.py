"""Airflow's doors to baskets: one batch a run of the live DAG, and its history."""

from lockstep.airflow import dags_for
from pipelines.baskets import BASKETS

dag, history = dags_for(BASKETS)
