"""Airflow's door to baskets: each run plans, stages, validates, commits and announces one batch."""

from lockstep.airflow import dag_for
from pipelines.baskets import BASKETS

dag = dag_for(BASKETS)
