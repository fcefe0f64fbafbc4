"""Links a task's page to its batch."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.bases.xcom import BaseXCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class BatchLink(BaseOperatorLink):
    """The link to the batch that the run has planned. Empty if there is none."""

    name = "Batch"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """Returns the batch's page, below Airflow's own address."""
        return _page(ti_key, "plan", "return_value")


class OneTaskLink(BaseOperatorLink):
    """The link to the batch of a run whose steps are one task. It is there as soon as the batch is planned."""

    name = "Batch"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """Returns the batch's page, below Airflow's own address."""
        return _page(ti_key, "run", "batch")


class HistoryLink(BaseOperatorLink):
    """The link to the newest batch that was committed for a history run. Empty if there is none."""

    name = "Batch"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """Returns the batch's page, below Airflow's own address."""
        return _page(ti_key, "work", "batch")


class DifferenceLink(BaseOperatorLink):
    """The link to what a preview of the run has found."""

    name = "Difference"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """Returns the run's page, below Airflow's own address."""
        return f"/lockstep/dags/{quote(ti_key.dag_id)}/runs/{quote(ti_key.run_id, safe='')}"


def _page(ti_key: TaskInstanceKey, task_id: str, key: str) -> str:
    """Returns the page of the batch that a task of the same run has stored under a key."""
    batch_id = BaseXCom.get_one(key=key, dag_id=ti_key.dag_id, task_id=task_id, run_id=ti_key.run_id)
    return f"/lockstep/dags/{quote(ti_key.dag_id)}/batches/{batch_id}" if batch_id else ""
