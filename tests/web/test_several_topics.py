"""Tests the pages of a pipeline of two topics: lanes by topic, and a record that is found by topic and partition."""

from __future__ import annotations

import pytest

from support.scenes.several import Several
from web.answers import said


@pytest.mark.long
def test_lanes_and_records_are_named_by_their_topic(pages, dags, here, produce, topic):
    dags(drill=False)
    two = Several(here, produce, topic(partitions=1))
    for end, count in (("eu", 12), ("us", 7)):
        two.make(end, partitions=1)
        two.send(end, 0, count)
    two.say(two.pair())
    two.drain()
    eu, us = two.name("eu"), two.name("us")
    two.send("us", 7, 2)
    pages("/dags/drill/coverage")  # asks the broker, which answers beside the page

    for along in ("offsets", "time"):
        answer = pages(f"/dags/drill/coverage?along={along}")
        assert answer.status_code == 200
        assert f"{eu}-0" in said(answer)
        assert f"{us}-0" in said(answer)
        assert f'id="{us}-p0"' in answer.text

    batch = pages("/dags/drill/batches/1")
    assert f"{us}-0" in said(batch)
    found = pages(f"/dags/drill/record?topic={us}&partition=0&offset=3")
    assert found.status_code == 200
    assert f"{us}-0 offset 3" in said(found)
    assert "us3" in found.text
    unnamed = pages("/dags/drill/record?partition=0&offset=3")
    assert unnamed.status_code == 404
    assert "and a partition is one of a topic" in said(unnamed, 404)
    assert '<input name="topic"' in unnamed.text
    assert f"{eu} and 1 more topic, 2 partitions" in said(pages("/"))
