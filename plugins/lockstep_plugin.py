"""Registers Lockstep's pages with Airflow, and nothing else."""

from airflow.plugins_manager import AirflowPlugin

from lockstep.web.app import app


class LockstepPlugin(AirflowPlugin):
    """The pages under /lockstep."""

    name = "lockstep"
    fastapi_apps = [{"app": app(), "url_prefix": "/lockstep", "name": "Lockstep"}]  # noqa: RUF012 - Airflow's own form
