"""Defines Airflow's plugin with Lockstep's pages, which the entry point `airflow.plugins` of the package names."""

from __future__ import annotations

from importlib.metadata import entry_points

from airflow.plugins_manager import AirflowPlugin

from lockstep.adapters.airflow import backfills
from lockstep.web.app import pages_app


class LockstepPlugin(AirflowPlugin):
    """The pages under /lockstep, and the scheduler's listener to backfills of history DAGs."""

    name = "lockstep"
    external_views = [  # noqa: RUF012 - Airflow's own form
        {"name": "Lockstep", "href": "/lockstep/", "url_route": "lockstep", "destination": "nav", "category": "browse"},
        {"name": "Coverage", "href": "/lockstep/dags/{DAG_ID}/coverage", "url_route": "coverage", "destination": "dag"},
        {
            "name": "Batch",
            "href": "/lockstep/dags/{DAG_ID}/runs/{RUN_ID}",
            "url_route": "batch",
            "destination": "dag_run",
        },
        {
            "name": "Batch",
            "href": "/lockstep/dags/{DAG_ID}/runs/{RUN_ID}",
            "url_route": "task_batch",
            "destination": "task_instance",
        },
    ]
    fastapi_apps = [{"app": pages_app(), "url_prefix": "/lockstep", "name": "Lockstep"}]  # noqa: RUF012 - Airflow's own form
    listeners = [backfills]  # noqa: RUF012 - Airflow's own form


def comes_with_package() -> bool:
    """Returns True if an installed package registers the plugin, so that a plugins folder need not."""
    return bool(entry_points(group="airflow.plugins", name=LockstepPlugin.name))
