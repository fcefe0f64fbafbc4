"""Defines the DAGs of reviews: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.reviews import REVIEWS

dag, history = dags_for(REVIEWS)
