"""Tests the stages of Spark on the page of a batch: what they took, where its own pages are, and what is not known."""

from __future__ import annotations

import re
from contextlib import closing
from functools import partial
from typing import Any

import psycopg2
import pytest

from web.answers import said

STAGE = """insert into lockstep.spark_stage (batch_id, token, stage, try_number, name, state, began_at, seconds, tasks,
    failed_tasks, median_seconds, longest_seconds, gc_seconds, input_records, input_bytes, shuffle_bytes, spilled_bytes,
    peak_memory_bytes)
    select batch_id, token, {stage}, 0, 'collect at spark_short.py:52', '{state}', opened_at + interval '{begins} s', {seconds},
        8, {failed}, {median}, {longest}, 0.25, 1200, 0, 3145728, {spilled}, 1536 from lockstep.attempt"""
RUN = """insert into lockstep.spark_run (batch_id, token, place, stages, heap_peak_bytes, heap_limit_bytes, gc_seconds, records)
    select batch_id, token, {} from lockstep.attempt"""
NONE = "\N{EN DASH}"
APPLICATION = "update lockstep.attempt set spark_application_id = 'local-7'"
ADDRESSES = "update lockstep.attempt set spark_ui = 'http://driver:4040', spark_event_log = '/logs/eventlog_v2_<i>'"
EVENTLY: dict[str, Any] = {"state": "complete", "failed": 0, "median": 1, "longest": 2, "spilled": 0}


def keep(here, *statements: str) -> None:
    """Does as if Spark had read for every attempt, and as if this were kept of it."""
    with closing(psycopg2.connect(here.drill.dsn)) as conn, conn, conn.cursor() as cur:
        for statement in ("set role lockstep_owner", APPLICATION, *statements):
            cur.execute(statement)


@pytest.fixture
def read_by_spark(here):
    """Returns `read_by_spark(statement, ...)`, which runs batch 1 as if Spark had read it, and kept this."""

    def run(*statements: str) -> None:
        wanted = [partial(keep, here, *statements)]

        def kept_at_the_first_record(value):
            if wanted:
                wanted.pop()()
            return value

        here.code = kept_at_the_first_record
        here.run()

    return run


def test_stages_are_drawn_along_their_time_and_the_slow_task_is_marked(pages, read_by_spark):
    read_by_spark(
        RUN.format("'local', 2, 536870912, 2147483648, 0.5, 1150"),
        STAGE.format(**EVENTLY | {"stage": 3, "begins": 0, "seconds": 4}),
        STAGE.format(**EVENTLY | {"stage": 4, "begins": 4, "seconds": 12, "longest": 11, "failed": 2, "spilled": 4096}),
    )
    text = pages("/dags/drill/batches/1").text
    words = said(pages("/dags/drill/batches/1"))

    assert (
        "Spark, attempt 1 local-7 1,150 records by Spark's own count heap at most 512.0 MiB of 2.0 GiB garbage collection 0.5 s"
        in words
    )
    assert "3 collect at spark_short.py:52 complete" in words
    drawn = re.findall(r'aria-label="(stage \d: [^"]+)"><rect class="stage" x="([\d.]+)" width="([\d.]+)"', text)
    assert drawn == [("stage 3: 4.0 s", "0.0", "250.0"), ("stage 4: 12 s", "250.0", "750.0")]
    assert re.findall(r'<td class="n( warn)?"[^>]* data-value="[\d.]+">(2\.0 s|11 s)<', text) == [
        ("", "2.0 s"),
        (" warn", "11 s"),
    ]
    assert '<td class="n warn" data-value="2">2</td>' in text, "tasks that failed"
    assert '<td class="n warn" data-value="4096">4.0 KiB</td>' in text, "what was spilled"
    assert "3.0 MiB" in words, "what was shuffled"
    assert "slowest" not in words


def test_of_many_stages_the_page_says_that_they_are_the_slowest(pages, read_by_spark):
    read_by_spark(
        RUN.format("'cluster', 90, null, 1073741824, 3, null"),
        STAGE.format(**EVENTLY | {"stage": 3, "begins": 0, "seconds": 4}),
    )
    words = said(pages("/dags/drill/batches/1"))
    assert "These are the slowest of 90 stages." in words
    assert "heap at most \N{EN DASH} of 1.0 GiB" in words
    assert "that of the fullest executor" in words


def test_what_a_server_does_not_tell_is_said(pages, read_by_spark):
    read_by_spark(RUN.format("'server', null, null, null, null, null"))
    words = said(pages("/dags/drill/batches/1"))
    assert "A Spark Connect server has read this attempt. It tells its clients neither stages nor memory." in words
    assert "heap" not in words


def test_an_attempt_without_figures_says_why(pages, read_by_spark):
    read_by_spark()
    assert "No stages were kept: Spark ended first, or an older version has read." in said(
        pages("/dags/drill/batches/1")
    )


def test_a_batch_that_no_spark_has_read_has_no_such_part(pages, here):
    here.run()
    assert "Spark, attempt" not in said(pages("/dags/drill/batches/1"))


def test_links_lead_to_the_history_server_and_the_event_log(pages, read_by_spark, monkeypatch):
    read_by_spark(ADDRESSES)
    monkeypatch.setenv("LOCKSTEP_SPARK_HISTORY", "http://history:18080/")
    text = pages("/dags/drill/batches/1").text
    assert 'href="http://history:18080/history/local-7/stages/" target="_blank" rel="noopener noreferrer"' in text
    assert "<code>/logs/eventlog_v2_&lt;i&gt;</code>" in text
    assert "http://driver:4040" not in text, "those pages ended with the driver"

    monkeypatch.setenv("LOCKSTEP_SPARK_HISTORY", "javascript:alert(1)")
    assert "javascript:" not in pages("/dags/drill/batches/1").text


def test_while_an_attempt_reads_a_link_leads_to_sparks_own_pages(pages, here):
    seen: list[Any] = []

    def looks_at_the_page(value):
        if not seen:
            keep(here, ADDRESSES)
            seen.append(pages("/dags/drill/batches/1"))
        return value

    here.code = looks_at_the_page
    here.run()

    (answer,) = seen
    assert 'href="http://driver:4040" target="_blank" rel="noopener noreferrer"' in answer.text
    assert "The stages are kept as soon as this attempt has read." in said(answer)


@pytest.mark.parametrize(("way", "engine"), [("spark", "spark"), ("tasks", "spark"), ("process", "process")])
def test_engine_and_application_of_the_newest_attempt_are_shown_with_its_batch(pages, here, postgres, way, engine):
    here.run()
    superuser = postgres.rpartition("/")[0] + "/" + here.drill.dsn.rpartition("/")[2]
    route = f"route = jsonb_build_object('way', '{way}', 'because', 'a test')"
    with closing(psycopg2.connect(superuser)) as conn, conn, conn.cursor() as cur:
        cur.execute("set local session_replication_role = replica")
        cur.execute(f"{APPLICATION}, {route}")
    written = here.drill.ask("select sum(written)::int from lockstep.result")[0][0]

    assert re.search(
        rf"1 committed live .* {written} 0 .* 1 {engine} local-7 {NONE}", said(pages("/dags/drill/batches"))
    )
    assert f"lane live engine {engine} planned" in said(pages("/dags/drill/batches/1"))


def test_a_batch_without_an_attempt_has_no_engine(pages, here):
    here.plan()

    assert "engine" not in said(pages("/dags/drill/batches/1"))
    assert f" 0 {NONE} {NONE} " in said(pages("/dags/drill/batches")), "no attempt, no engine, no run"
