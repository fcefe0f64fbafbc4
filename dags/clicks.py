"""Defines the DAGs of clicks: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.clicks import CLICKS

dag, history = dags_for(CLICKS)
