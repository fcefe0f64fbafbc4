"""Airflow's door to page_views: each run plans, stages, validates, commits and announces one batch."""

from lockstep.airflow import dag_for
from pipelines.page_views import PAGE_VIEWS

dag = dag_for(PAGE_VIEWS)
