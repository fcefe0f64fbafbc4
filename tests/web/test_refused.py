"""Tests that a page that cannot be shown says why, with its own status."""

from __future__ import annotations

from fastapi import HTTPException

from web.answers import guards, said


def test_an_emptied_field_is_one_that_was_not_filled_in(pages):
    assert said(pages("/dags/drill/coverage?from=&until=&first=&colour="))
    assert said(pages("/dags/drill/batches?before=&lane="))
    assert said(pages("/dags/drill/record?partition=&offset="))


def test_a_page_that_is_not_there_says_so(pages):
    assert "pipeline drill has no batch 7" in said(pages("/dags/drill/batches/7"), 404)
    assert "batch_id: Input should be a valid integer" in said(pages("/dags/drill/batches/x"), 422)
    assert "offset: Input should be greater than or equal to 0" in said(pages("/dags/drill/record?offset=-1"), 422)
    assert "There is no such page" in said(pages("/nowhere"), 404)


def test_a_ledger_that_is_away_is_one_line_with_the_next_command(pages, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_DSN", "postgresql://nobody:secret@127.0.0.1:1/nowhere")
    words = said(pages("/"), 503)
    assert "The ledger is away" in words
    assert "Next: look at LOCKSTEP_DSN" in words
    assert "secret" not in words


def test_a_database_without_a_ledger_is_told_what_to_run(pages, postgres, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_DSN", postgres)
    assert "lockstep migrate" in said(pages("/dags/drill/batches"), 503)


def test_what_nobody_foresaw_shows_nothing_of_the_code(pages, here, monkeypatch):
    here.drain()
    monkeypatch.setattr("lockstep.web.batches_page.overview.history", lambda *_: 1 / 0)
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
