"""Tests that the pages match the ledger, for empty and full pipelines, and only for users who may read them."""

from __future__ import annotations

import json
import re
import runpy
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource

from lockstep.steps.changes.forget import forget
from lockstep.steps.changes.retire import retire
from lockstep.steps.upkeep.archive import archive_due
from lockstep.web import plugin
from lockstep.web.app import pages_app
from lockstep.web.pictures.drawing import Scale
from lockstep.web.place import ASKING
from support.scenes.here import ME, into_feed
from support.scenes.odd_logs import alter, delete_records, recreate, until
from web.answers import guards, said

FOLDER = Path(__file__).parents[2] / "plugins"
PATHS = (
    "/",
    "/metrics",
    "/dags/drill/coverage",
    "/dags/drill/batches",
    "/dags/drill/batches/1",
    "/dags/drill/record",
    "/dags/drill/feed",
    "/dags/drill/feed/1",
    "/dags/drill/time",
    "/dags/drill/late",
    "/dags/drill/runs/r1",
)


def test_every_route_is_guarded_by_airflows_own_permission():
    served = pages_app()
    routes = [route for route in served.routes if hasattr(route, "dependant")]
    assert len(routes) == len(PATHS)
    assert all(route.dependant.dependencies for route in routes)
    assert {guard.__module__ for guard in guards(served)} == {"airflow.api_fastapi.core_api.security"}


def test_each_tab_has_a_route_of_its_own_for_airflow_leaves_out_the_second_of_a_name():
    views = plugin.LockstepPlugin.external_views
    assert {view["destination"] for view in views} == {"nav", "dag", "dag_run", "task_instance"}
    assert len({view["url_route"] for view in views}) == len(views)


@pytest.mark.parametrize(("with_package", "registers"), [(True, []), (False, ["LockstepPlugin"])])
def test_the_plugins_folder_registers_the_pages_where_no_package_does(with_package, registers, monkeypatch):
    monkeypatch.setattr(plugin, "comes_with_package", lambda: with_package)
    found = runpy.run_path(str(FOLDER / "lockstep_plugin.py"))
    assert [name for name, value in found.items() if value is plugin.LockstepPlugin] == registers


def test_a_pipeline_that_never_ran_has_pages_that_say_so(pages, dags):
    dags(drill=False, drill_history=False)
    assert "drill no stream yet" in said(pages("/"))
    assert "No offset is covered yet" in said(pages("/dags/drill/coverage"))
    assert "No batch was planned yet" in said(pages("/dags/drill/batches"))
    assert "has planned no batch" in said(pages("/dags/drill/runs/r1"))
    assert "This run has changed nothing" in said(pages("/dags/drill_history/runs/r1"))
    assert "nothing was planned yet" in said(pages("/dags/drill/record?partition=0&offset=0"), 404)
    assert "nothing was planned yet" in said(pages("/dags/drill/record"))


def test_the_coverage_shows_each_segment_hole_skip_and_reject(pages, here, produce):
    here.run()
    produce(here.drill.topic, [("k", "no json")], partition=0)
    here.drain()
    assert "No hole." in said(pages("/dags/drill/coverage"))
    produce(here.drill.topic, [("k", '{"id": "late", "n": 1}')] * 5, partition=1)
    here.skip()
    here.replay("0:0", "0:1")

    text = pages("/dags/drill/coverage").text

    batches = {batch for (batch,) in here.drill.ask("select batch_id from lockstep.coverage where kind = 'batch'")}
    assert {int(each) for each in re.findall(r"/batches/(\d+)", text)} == batches
    assert 'class="replay"' in text
    assert 'class="skipped"' in text
    assert text.count('<circle class="reject"') == 2, "in the lane and in the legend"
    words = said(pages("/dags/drill/coverage"))
    assert "No hole." not in words, "what was skipped is one, until it is filled"
    assert "1 skipped stretch" in words
    assert "1 reject." in words


def test_a_view_that_ends_before_it_begins_is_refused_with_its_offsets(pages, here):
    here.drain()
    answer = pages("/dags/drill/coverage?from=9&until=3")
    assert answer.status_code == 400
    assert "[9, 3)" in answer.text


def test_all_pipelines_at_one_glance(pages, here, produce):
    here.drain()
    produce(here.drill.topic, [("k", '{"id": "late", "n": 1}')] * 7, partition=1)

    words = said(pages("/"))

    assert "drill" in words
    assert "well 7 " in words, "healthy, and seven records behind"
    assert "never_run" not in words


def test_the_newest_batches_are_bars_with_their_records_and_a_head_says_so(pages, here, produce):
    here.run()
    produce(here.drill.topic, [("k", '{"id": "late", "n": 1}')] * 7, partition=1)
    here.run()

    text = pages("/").text

    assert re.findall(r"<title>(batch \d+: \d+ records)</title>", text) == [
        "batch 1: 150 records",
        "batch 2: 7 records",
    ]
    assert 'title="records written by each of the newest batches, the newest at the right">newest batches</th>' in text


def test_a_pipeline_without_a_complete_hour_names_the_command_that_says_why(pages, here):
    here.drain()
    assert 'title="no hour is complete yet: lockstep hours drill says why">' in pages("/").text
    assert "No hour is complete yet: lockstep hours drill says why" in said(pages("/dags/drill/coverage"))


def test_a_forgotten_pipeline_is_not_among_all_pipelines(pages, here):
    here.drain()
    assert "/lockstep/dags/drill/coverage" in pages("/").text
    forget(here.at.conn, "drill", ME)
    said = pages("/")
    assert said.status_code == 200
    assert "/lockstep/dags/drill/coverage" not in said.text
    batches = pages("/dags/drill/batches")
    assert batches.status_code == 200
    assert "/lockstep/dags/drill/batches/1" in batches.text


def test_a_broker_that_is_away_is_said_and_the_rest_is_shown(pages, here, monkeypatch):
    here.drain()
    monkeypatch.setenv("LOCKSTEP_KAFKA", "127.0.0.1:1")
    monkeypatch.setattr("lockstep.adapters.kafka.client.ANSWER_SECONDS", 1.0)

    assert "unknown" in said(pages("/"))
    words = said(pages("/dags/drill/coverage"))
    assert "is not known now" in words
    assert "partition 0" in words


def test_history_is_listed_newest_first_and_page_by_page(pages, here):
    here.drain()
    here.replay("0:0", "0:1")
    ids = [batch for (batch,) in here.drill.ask("select batch_id from lockstep.batch order by 1 desc")]

    text = pages("/dags/drill/batches").text
    assert [int(each) for each in re.findall(r'/batches/(\d+)">', text)] == ids
    older = pages(f"/dags/drill/batches?before={ids[0]}").text
    assert [int(each) for each in re.findall(r'/batches/(\d+)">', older)] == ids[1:]
    only = pages("/dags/drill/batches?lane=replay").text
    assert [int(each) for each in re.findall(r'/batches/(\d+)">', only)] == ids[:1]


def test_one_batch_shows_its_ranges_attempts_and_time(pages, here):
    here.run()
    text = pages("/dags/drill/batches/1").text
    words = said(pages("/dags/drill/batches/1"))

    assert "drill, batch 1 committed" in words
    for step in ("wait", "stage", "validate", "commit"):
        assert f'<rect class="{step}"' in text
    assert "The target: " in words
    assert pages("/dags/other/batches/1").status_code == 404
    assert pages("/dags/drill/batches/99").status_code == 404


def test_a_record_is_followed_from_its_offset_to_its_row_and_its_bytes(pages, here):
    here.drain()
    words = said(pages("/dags/drill/record?partition=0&offset=3"))

    assert "offset 3 → batch 1 → attempt" in words
    assert "1 row" in words
    assert "&#34;id&#34;: &#34;r" in words, "the message as Kafka has it"
    assert "no stream" in said(pages("/dags/drill/record?partition=7&offset=3"), 404)


@pytest.mark.long
def test_a_record_below_log_start_is_read_from_the_archive(pages, here, tmp_path):
    here.rewrite("import Append,", "import Append, Archive,")
    here.rewrite("limits=Limits", f'archive=Archive("file://{tmp_path}", within="7d"), limits=Limits')
    alter(here.drill.kafka, ConfigResource.Type.TOPIC, here.drill.topic, [("retention.ms", "86400000")])
    here.drain()
    archive_due(here.at, here.folder.pipeline, datetime.now(UTC))
    delete_records(here.drill.kafka, here.drill.topic, 9)
    pages("/dags/drill/coverage")  # asks the broker, which answers beside the page
    until(
        lambda: "&#34;id&#34;: &#34;r" in said(pages("/dags/drill/record?partition=0&offset=3")), "no record is shown"
    )

    ((path,),) = here.drill.ask("select path from lockstep.archived order by path limit 1")
    (tmp_path / path).unlink()
    words = said(pages("/dags/drill/record?partition=0&offset=3"))
    assert "cannot be read: it is missing" in words
    assert "Kafka does not have this offset any more, or not yet." in said(
        pages("/dags/drill/record?partition=0&offset=99999")
    )


def test_the_tab_of_a_run_leads_to_its_batch(pages, here):
    here.run(key="manual__1")
    answer = pages("/dags/drill/runs/manual__1", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/lockstep/dags/drill/batches/1")


def test_what_a_page_shows_cannot_speak_to_the_browser(pages, here, produce):
    produce(here.drill.topic, [("k", '{"id": "<script>alert(1)</script>", "n": 1}')], partition=0)
    here.drain()
    offset = max(offset for (offset,) in here.drill.ask("select _offset from public.drill where id ~ '^<script>'"))
    text = pages(f"/dags/drill/record?partition=0&offset={offset}").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 7), (3, 2**53), (999, 1_000)])
def test_the_axis_is_marked_at_round_offsets_within_it(low, high):
    marks = Scale(low, high).ticks()
    assert len(marks) <= 9
    assert all(low <= offset <= high and 0 <= x <= 1000 for x, offset in marks)


def test_a_record_of_a_topic_that_was_made_anew_is_not_shown_as_the_one_that_was_read(pages, drill, produce):
    here = into_feed(drill)
    here.drain()
    ((key, partition, offset),) = here.drill.ask(
        "select id, partition, _offset from public.newest join lockstep.origin using (_stream) order by _offset limit 1"
    )
    recreate(here.drill.kafka, here.drill.topic)
    other = json.dumps({"id": "another", "n": 1})
    produce(here.drill.topic, [("another", other)] * (offset + 1), partition)
    by_offset, by_key = f"/dags/drill/record?partition={partition}&offset={offset}", f"/dags/drill/record?key={key}"

    until(lambda: ASKING not in said(pages(by_offset)), "the broker does not answer")
    for address in (by_offset, by_key):
        words = said(pages(address))
        assert f"id {key} " in words
        assert "another topic of this name" in words
        assert "another&#34;" not in pages(address).text, "it shows the bytes of another record"

    retire(here.at.conn, here.at.broker, here.folder.pipeline, None, ME)
    here.drain()

    words = said(pages(by_key))
    assert f"id {key} " in words, "the row of this key, and not that of the record that stands there today"
    assert "batch 1" in words
    assert "another topic of this name" in words
    words = said(pages(by_offset))
    assert "batch 2" in words
    assert "another topic of this name" not in words
