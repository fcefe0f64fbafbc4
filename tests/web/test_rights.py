"""Tests that a DAG's id alone leads to no page: a DAG that the reader may read has run the pipeline, or it is named."""

from __future__ import annotations

from uuid import uuid4

import pytest

from lockstep.core.planning.decisions import TaskRun
from web.answers import said

PAGES = ("coverage", "batches", "batches/1", "record?partition=0&offset=3", "runs/r1", "feed", "feed/1", "time", "late")
READABLE = ("drill", "drill_history")  # as the fixture lets its reader


@pytest.fixture
def pages(pages, monkeypatch):
    """Returns the pages of a server that names no pipeline, and remembers nothing."""
    from lockstep.web import rights  # noqa: PLC0415 - Airflow reads its home when it is imported

    monkeypatch.delenv("LOCKSTEP_PAGES")
    monkeypatch.setattr(rights, "REMEMBERED_SECONDS", 0.0)
    return pages


def ran_by(here, dag_id: str | None) -> None:
    """Runs the pipeline, as a task of this DAG or from the command line."""
    its = {"task_run": TaskRun(dag_id, "r1", str(uuid4()), 1, "stage", None)} if dag_id else {}
    assert here.run(**its).went_on


@pytest.mark.parametrize("ran", [None, "somebody_elses", "never_run"])
@pytest.mark.parametrize("dag_id", READABLE)
def test_a_dag_that_has_the_id_of_a_pipeline_and_never_ran_it_shows_nothing(pages, here, dags, dag_id, ran):
    dags(drill=True, drill_history=True, somebody_elses=True)
    dags("no-tag-of-ours", never_run=True)
    ran_by(here, ran)

    for path in PAGES:
        words = said(pages(f"/dags/{dag_id}/{path}", follow_redirects=False), 404)
        assert "Pipeline drill: none of the DAGs that you may read has run it here." in words, path
        assert "LOCKSTEP_PAGES" in words
    assert "drill" not in said(pages("/"))
    assert 'pipeline="drill"' not in pages("/metrics").text


@pytest.mark.parametrize("ran", ["drill", "drill_history", "never_run"])
def test_a_dag_of_ours_that_ran_it_and_that_the_reader_may_read_shows_it(pages, here, dags, ran):
    dags(drill=True, drill_history=True)
    dags("lockstep", "fleet", never_run=True)
    ran_by(here, ran)

    for dag_id in READABLE:
        assert "1 row" in said(pages(f"/dags/{dag_id}/record?partition=0&offset=3"))
    assert "drill" in said(pages("/"))
    assert 'pipeline="drill"' in pages("/metrics").text


def test_a_dag_without_lockstep_s_tag_shows_nothing_even_if_it_ran_it(pages, here, dags):
    dags("others", drill=True)
    ran_by(here, "drill")
    said(pages("/dags/drill/batches"), 404)


@pytest.mark.parametrize("named", ["drill", "other, drill", "*"])
def test_the_operator_names_pipelines_that_others_run(pages, here, monkeypatch, named):
    ran_by(here, None)
    monkeypatch.setenv("LOCKSTEP_PAGES", named)
    assert "1 row" in said(pages("/dags/drill/record?partition=0&offset=3"))

    monkeypatch.setenv("LOCKSTEP_PAGES", "drill_history, other")
    said(pages("/dags/drill/record?partition=0&offset=3"), 404)


@pytest.mark.usefixtures("here")
def test_a_pipeline_that_nobody_has_run_has_its_empty_pages(pages, dags):
    dags(drill=True, never_run=True)
    assert "no pipeline never_run" not in said(pages("/dags/never_run/batches"))
