"""Tests that the page of a record that was erased shows nothing of it, and asks Kafka for nothing that the ledger knows."""

from __future__ import annotations

import pytest

from support.scenes.erasing import KEY, erase_key, feed
from support.scenes.forged import Contents
from web.answers import said


@pytest.fixture
def fed(drill, produce):
    """Yields the drill with one person's rows and rejects, at offsets that end with the person's record."""
    here = Contents(drill)
    feed(produce, drill.topic)
    here.drain()
    yield here
    here.at.close()


def test_the_page_of_an_erased_offset_names_the_decision_and_asks_kafka_nothing(pages, fed, monkeypatch):
    ((row,),) = fed.sql(f"select max(_offset) from public.drill where id = '{KEY}'")
    ((reject,),) = fed.sql('select max("offset") from lockstep.reject')
    paths = [f"/dags/drill/record?partition={p}&offset={o}" for p, o in ((0, row), (1, reject))]
    assert [KEY in pages(path).text for path in paths] == [True, True]
    erase_key(fed)

    monkeypatch.setattr("lockstep.web.pages.record_page.connection_broker", lambda: pytest.fail("Kafka was asked"))
    for path in paths:
        words = said(pages(path))
        assert "erased by decision 1" in words
        assert KEY not in words


def test_a_record_whose_kafka_key_was_erased_is_not_shown(pages, fed):
    ((row,),) = fed.sql(f"select max(_offset) from public.drill where id = '{KEY}'")
    erase_key(fed)
    fed.sql("delete from lockstep.erased where relation = 'public.drill'")  # as of a row that was replaced

    words = said(pages(f"/dags/drill/record?partition=0&offset={row}"))
    assert "A record of this key was erased by decision 1" in words
    assert KEY not in words


def test_a_record_that_came_after_the_erasure_is_shown(pages, fed, produce):
    erase_key(fed)
    feed(produce, fed.drill.topic)
    fed.drain()
    ((row,),) = fed.sql(f"select max(_offset) from public.drill where id = '{KEY}'")
    assert KEY in said(pages(f"/dags/drill/record?partition=0&offset={row}"))
