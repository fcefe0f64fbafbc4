"""Defines the DAGs of page_views: the live one, with one batch a run, and its history."""

from lockstep.airflow import dags_for
from pipelines.page_views import PAGE_VIEWS

dag, history = dags_for(PAGE_VIEWS)
