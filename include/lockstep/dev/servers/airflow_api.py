"""Calls Airflow's own API, as far as the demo and the tests need it."""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from lockstep.core.errors import Refusal
from lockstep.dev.servers.airflow import API_SECONDS

if TYPE_CHECKING:
    import ssl

PAGE = 100  # DAGs of one answer; Airflow gives no more


class AirflowApi:
    """One Airflow's REST API for one user. Logs in with the first call that needs it."""

    def __init__(self, address: str, user: str, password: str, seconds: float = API_SECONDS) -> None:
        self._address, self._user, self._password, self._seconds = address, user, password, seconds

    def health(self) -> dict[str, str]:
        """Returns the status by component. Empty while the server does not answer."""
        try:
            answer = httpx.get(f"{self._address}/api/v2/monitor/health", timeout=2.0, verify=_authorities())
            return {name: part["status"] for name, part in answer.json().items() if part}
        except (httpx.HTTPError, ValueError):
            return {}

    def unpause(self, dag_id: str, *, paused: bool = False) -> None:
        """Unpauses a DAG, or pauses it."""
        self.call("PATCH", f"dags/{dag_id}", {"is_paused": paused})

    def dags(self) -> dict[str, Any]:
        """Returns the DAGs that Airflow knows, by id."""
        return {dag["dag_id"]: dag for dag in self.call("GET", "dags?limit=100")["dags"]}

    def import_errors(self) -> list[str]:
        """Returns the errors of DAG files."""
        return [error["stack_trace"] for error in self.call("GET", "importErrors")["import_errors"]]

    def trigger(self, dag_id: str, **conf: Any) -> str:
        """Triggers a run and returns its id."""
        run = self.call("POST", f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return str(run["dag_run_id"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Returns the runs of a DAG, oldest first."""
        found: list[dict[str, Any]] = self.call("GET", f"dags/{dag_id}/dagRuns?limit=100&order_by=id")["dag_runs"]
        return found

    def tasks(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Returns the task instances of a run, by task."""
        found = self.call("GET", f"dags/{dag_id}/dagRuns/{_quoted(run_id)}/taskInstances")
        return {task["task_id"]: task for task in found["task_instances"]}

    def clear(self, dag_id: str, run_id: str, *tasks: str) -> None:
        """Clears a run, or some of its tasks."""
        what: dict[str, Any] = {"dry_run": False, "dag_run_id": run_id, "only_failed": False, "reset_dag_runs": True}
        self.call("POST", f"dags/{dag_id}/clearTaskInstances", what | ({"task_ids": list(tasks)} if tasks else {}))

    def mark(self, dag_id: str, run_id: str, task: str, state: str) -> None:
        """Sets a task's state by hand."""
        path = f"dags/{dag_id}/dagRuns/{_quoted(run_id)}/taskInstances/{task}"
        self.call("PATCH", path, {"new_state": state, "include_downstream": False})

    def xcom(self, dag_id: str, run_id: str, task: str, key: str = "return_value") -> Any:
        """Returns a task's XCom under a key."""
        path = f"dags/{dag_id}/dagRuns/{_quoted(run_id)}/taskInstances/{task}/xcomEntries/{key}?deserialize=true"
        return self.call("GET", path)["value"]

    def log(self, dag_id: str, run_id: str, task: str, try_number: int) -> str:
        """Returns the log of one try, a line an event."""
        path = f"dags/{dag_id}/dagRuns/{_quoted(run_id)}/taskInstances/{task}/logs/{try_number}?full_content=true"
        content = self.call("GET", path)["content"]
        return "\n".join(_line(event) for event in content)

    def links(self, dag_id: str, run_id: str, task: str) -> dict[str, str]:
        """Returns the links on a task's page, by name."""
        path = f"dags/{dag_id}/dagRuns/{_quoted(run_id)}/taskInstances/{task}/links"
        found: dict[str, str] = self.call("GET", path)["extra_links"]
        return found

    def page(self, path: str) -> httpx.Response:
        """Returns any page of this Airflow, as the logged-in user sees it."""
        return self._session.get(f"{self._address}{path}")

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Calls anything else below /api/v2. Raises `Refusal` with Airflow's own words if it fails."""
        answer = self._session.request(method, f"{self._address}/api/v2/{path}", json=body)
        if answer.is_error:
            raise Refusal(f"Airflow: {method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer.json()

    @cached_property
    def _session(self) -> httpx.Client:
        login = {"username": self._user, "password": self._password}
        answer = httpx.post(f"{self._address}/auth/token", json=login, timeout=self._seconds, verify=_authorities())
        if answer.is_error:
            raise Refusal(f"Airflow at {self._address} does not let {self._user} in: {answer.status_code}")
        bearer = {"Authorization": f"Bearer {answer.json()['access_token']}"}
        return httpx.Client(headers=bearer, timeout=self._seconds, verify=_authorities())


def paused(api: AirflowApi) -> dict[str, bool]:
    """Returns, by id, if a DAG of Lockstep is paused. Empty if Airflow does not answer."""
    found: dict[str, bool] = {}
    try:
        while True:
            page = api.call("GET", f"dags?tags=lockstep&order_by=dag_id&limit={PAGE}&offset={len(found)}")
            found |= {dag["dag_id"]: dag["is_paused"] for dag in page["dags"]}
            if len(page["dags"]) < PAGE:
                return found
    except (httpx.HTTPError, Refusal, ValueError, KeyError):
        return {}


@cache
def _authorities() -> ssl.SSLContext:
    """Returns whom every call trusts, read once: a call that reads them itself takes most of its time for that."""
    return httpx.create_ssl_context()


def _line(event: Any) -> str:
    """Formats one event of a log, with the reason of a skip, and the messages of its exceptions."""
    if not isinstance(event, dict):
        return str(event)
    errors = [f"{error['exc_type']}: {error['exc_value']}" for error in event.get("error_detail") or []]
    reason = f" {event['reason']}" if event.get("reason") else ""
    return "\n".join([f"{event.get('event', '')}{reason}", *errors])


def _quoted(run_id: str) -> str:
    return quote(run_id, safe="")
