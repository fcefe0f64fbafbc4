"""Tests that the page of a batch says what the batch did to each table with a feed."""

from __future__ import annotations

import re
from contextlib import closing

import psycopg2
import pytest

from lockstep.steps.upkeep.trim_feeds import trim_feeds
from support.scenes.here import into_feed
from web.answers import said

AGED = """set session_replication_role = replica;
    update lockstep.change_set set at = at - interval '8 days'"""


@pytest.fixture
def fed(drill):
    """Returns `fed(more)`, which leads the drill into a table with a feed."""
    made = []

    def lead(more: str = ""):
        made.append(into_feed(drill, more))
        return made[-1]

    yield lead
    for each in made:
        each.at.close()


def test_the_page_of_a_batch_counts_the_changes_of_each_set(pages, fed):
    fed().run()
    words = said(pages("/dags/drill/batches/1"))
    assert "lockstep changes drill --target public.newest --from 0" in words
    assert "Changes table set changes inserted updated deleted public.newest 1 150 150 0 0" in words


def test_per_partition_the_page_says_which_range_a_set_is_of(pages, fed):
    here = fed(", guarantee=PerPartition()")
    here.run()
    words = said(pages("/dags/drill/batches/1"))
    for partition, until, changes, seq in here.drill.ask(
        "select s.partition, s.position, c.changes, c.seq from lockstep.change_set c join lockstep.stream s using (stream_id)"
    ):
        assert f"public.newest {seq} {here.drill.topic}-{partition} [0, {until}) {changes} {changes} 0 0" in words


def test_the_page_says_that_a_set_was_trimmed(pages, fed, postgres, database):
    here = fed()
    here.run()
    with closing(psycopg2.connect(re.sub(r"/\w+$", database[database.rindex("/") :], postgres))) as conn, conn:
        conn.cursor().execute(AGED)
    assert trim_feeds(here.at.conn) == (150, [])
    words = said(pages("/dags/drill/batches/1"))
    assert "public.newest 1 150 \N{EN DASH} \N{EN DASH} \N{EN DASH}" in words
    assert "The rows of sets without counts are trimmed." in words
    assert "lockstep changes" not in words


def test_without_a_feed_the_page_has_no_table_of_changes(pages, here):
    here.run()
    assert "Changes" not in said(pages("/dags/drill/batches/1"))
