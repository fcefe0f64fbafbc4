"""Airflow's doors to page_views: one batch a run of the live DAG, and its history."""

from lockstep.airflow import dags_for
from pipelines.page_views import PAGE_VIEWS

dag, history = dags_for(PAGE_VIEWS)
