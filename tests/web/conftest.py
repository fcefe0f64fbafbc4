"""Serves the app as Airflow's own."""

from __future__ import annotations

import re
from contextlib import closing
from types import SimpleNamespace

import psycopg2
import pytest

from support.scenes.here import Here
from web.answers import guards


@pytest.fixture
def here(drill):
    here = Here(drill)
    yield here
    here.at.close()


@pytest.fixture
def dags():
    """`dags(drill=True)` makes Airflow's database know this DAG, with the tag of ours, as paused, and with its owners."""
    from airflow.models.dag import DagModel, DagTag  # noqa: PLC0415 - Airflow reads its home when it is imported
    from airflow.models.dagbundle import DagBundleModel  # noqa: PLC0415 - the same
    from airflow.settings import engine  # noqa: PLC0415 - the same
    from airflow.utils.session import create_session  # noqa: PLC0415 - the same
    from sqlalchemy import delete  # noqa: PLC0415 - the same

    tables = [DagBundleModel.__table__, DagModel.__table__, DagTag.__table__]
    DagModel.metadata.create_all(engine, tables=tables)
    with create_session() as session:
        session.add(DagBundleModel(name="b"))

    def know(*tags: str, owners: str = "lockstep", **paused: bool) -> None:
        with create_session() as session:
            for dag_id, is_paused in paused.items():
                given = [DagTag(name=tag, dag_id=dag_id) for tag in tags or ("lockstep", "live", "a topic")]
                known = {"dag_id": dag_id, "is_paused": is_paused, "is_stale": False, "owners": owners}
                session.add(DagModel(**known, bundle_name="b", tags=given))

    yield know
    with create_session() as session:
        for table in reversed(tables):
            session.execute(delete(table))


@pytest.fixture
def pages(drill, monkeypatch):
    """Returns `pages("/dags/drill/coverage")`, which answers as the server would for a reader of these DAGs."""
    from fastapi.testclient import TestClient  # noqa: PLC0415 - Airflow reads its home when it is imported

    from lockstep.web import place  # noqa: PLC0415 - the same
    from lockstep.web.app import pages_app  # noqa: PLC0415 - the same

    monkeypatch.setenv("LOCKSTEP_DSN", drill.dsn)
    monkeypatch.setenv("LOCKSTEP_KAFKA", drill.kafka)
    monkeypatch.setenv("LOCKSTEP_PAGES", "*")
    monkeypatch.setattr(place, "REMEMBERED", place.Remembered(seconds=0.1))
    served = pages_app()
    for guard in guards(served):
        readable = SimpleNamespace(value={"drill", "drill_history", "never_run"})
        answer = readable if guard.__name__ == "depends_permitted_dags_filter" else None
        served.dependency_overrides[guard] = lambda answer=answer: answer
    return TestClient(served, raise_server_exceptions=False).get


@pytest.fixture
def spoil(postgres, database):
    """Returns `spoil(statement)`, which runs a statement that no constraint and no trigger sees."""

    def run(statement: str) -> None:
        dsn = re.sub(r"/\w+$", database[database.rindex("/") :], postgres)
        with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute("set session_replication_role = replica")
            cur.execute(statement)

    return run
