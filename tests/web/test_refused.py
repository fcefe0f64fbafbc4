"""Tests that a page that cannot be shown says why, with its own status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg2
import pytest
from fastapi import HTTPException

from lockstep.steps.changes.rename import rename
from support.scenes.here import ME
from web.answers import guards, said


def test_an_emptied_field_is_one_that_was_not_filled_in(pages, dags):
    dags(drill=False)
    assert said(pages("/dags/drill/coverage?from=&until=&first=&colour="))
    assert said(pages("/dags/drill/batches?before=&lane="))
    assert said(pages("/dags/drill/record?partition=&offset="))


def test_a_page_that_is_not_there_says_so(pages):
    assert "pipeline drill has no batch 7" in said(pages("/dags/drill/batches/7"), 404)
    assert "batch_id: Input should be a valid integer" in said(pages("/dags/drill/batches/x"), 404)
    assert "offset: Input should be greater than or equal to 0" in said(pages("/dags/drill/record?offset=-1"), 400)
    assert "There is no such page" in said(pages("/nowhere"), 404)


@pytest.mark.parametrize("page", ["coverage", "batches", "record", "record?partition=0&offset=0", "runs/r1"])
def test_a_pipeline_that_nobody_knows_is_not_found(pages, dags, page):
    dags("reports", nope=False)
    assert "There is no pipeline nope." in said(pages(f"/dags/nope/{page}"), 404)
    assert "There is no pipeline nope." in said(pages(f"/dags/nope_history/{page}"), 404)


def test_a_former_name_leads_to_the_name_of_today(pages, here):
    here.drain()
    rename(here.at.conn, "drill", replace(here.folder.pipeline, name="sales"), ME)
    assert "Pipeline drill was renamed to sales." in said(pages("/dags/drill/coverage"), 404)


def test_what_a_pipeline_does_not_have_is_not_found(pages, here):
    here.drain()
    assert "has only 3 partitions" in said(pages("/dags/drill/coverage?first=40"), 404)
    refused = pages("/dags/drill/record?partition=9&offset=0")
    assert "no stream; there are: 0, 1, 2 Next: lockstep status drill" in said(refused, 404)
    assert "0, 1, 2</span><br>" in refused.text, "the next command has a line of its own"
    assert "<code>lockstep status drill</code>" in refused.text


def test_a_choice_that_is_none_is_refused_with_those_that_are(pages, here):
    here.drain()
    assert "along: sideways is none of offsets, time" in said(pages("/dags/drill/coverage?along=sideways"), 400)
    assert "lane: dead is none of all, live, fill, replay" in said(pages("/dags/drill/batches?lane=dead"), 400)
    assert "Rows of drill have no key" in said(pages("/dags/drill/record?key=r1"), 400)


@pytest.mark.parametrize("page", ["", "dags/drill/coverage", "dags/drill/batches/1", "dags/drill/record?key=1"])
def test_a_ledger_that_is_away_is_one_line_with_the_next_command(pages, monkeypatch, page):
    monkeypatch.setenv("LOCKSTEP_DSN", "postgresql://nobody:secret@127.0.0.1:1/nowhere")
    words = said(pages(f"/{page}"), 503)
    assert "The ledger is away" in words
    assert "Next: look at LOCKSTEP_DSN" in words
    assert "secret" not in words


def test_a_ledger_that_ends_a_page_in_the_middle_is_away(pages, here, monkeypatch):
    here.drain()

    def ended(*_: Any) -> None:
        raise psycopg2.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr("lockstep.web.pages.batches_page.overview.history", ended)
    assert "The ledger is away the connection to the ledger" in said(pages("/dags/drill/batches"), 503)


def test_a_database_without_a_ledger_is_told_what_to_run(pages, postgres, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_DSN", postgres)
    assert "lockstep migrate" in said(pages("/dags/drill/batches"), 503)


def test_what_nobody_foresaw_shows_nothing_of_the_code(pages, here, monkeypatch):
    here.drain()
    monkeypatch.setattr("lockstep.web.pages.batches_page.overview.history", lambda *_: 1 / 0)
    words = said(pages("/dags/drill/batches"), 500)
    assert "ZeroDivisionError; the log of Airflow" in words


def test_who_is_not_logged_in_is_led_to_the_door(pages):
    served = pages.__self__.app

    def nobody() -> None:
        raise HTTPException(401, "Invalid JWT token")

    for guard in guards(served):
        served.dependency_overrides[guard] = nobody
    answer = pages("/dags/drill/coverage")
    assert 'href="/" target="_top">Log in to Airflow' in answer.text
    assert said(answer, 401)
