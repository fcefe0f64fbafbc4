"""Tests the page of one batch with its surroundings, and that of the batches of a DAG run."""

from __future__ import annotations

import re

from lockstep.core.decisions import TaskRun
from lockstep.targets.stores import results_of
from stores.conftest import warehouse  # noqa: F401 - a fixture
from web.answers import said


def test_a_batch_shows_the_lease_and_the_code_of_its_attempt_and_who_asked_for_it(pages, here):
    here.drain()
    here.replay("0:0", "0:1")
    batch = max(batch for (batch,) in here.drill.ask("select batch_id from lockstep.batch"))
    ((hash_, code),) = here.drill.ask("select definition_hash, code_version from lockstep.definition")

    words = said(pages(f"/dags/drill/batches/{batch}"))
    assert "asked for by me: a test" in words
    assert "given back" in words
    assert f"{hash_} {code}" in words


def test_rejects_are_named_with_their_reasons_and_lead_to_their_records(pages, here, produce):
    produce(here.drill.topic, [("k", "no json")] * 25, partition=0)
    here.drain()
    ((first,),) = here.drill.ask('select min("offset") from lockstep.reject')
    ((batch,),) = here.drill.ask("select distinct batch_id from lockstep.reject")

    text = pages(f"/dags/drill/batches/{batch}").text
    assert f"/lockstep/dags/drill/record?partition=0&amp;offset={first}" in text
    assert text.count("not JSON: JSONDecodeError") == 20
    assert f"lockstep rejects drill --batch {batch}" in text


def test_every_batch_of_a_history_run_is_listed_and_no_other(pages, here):
    here.drain()
    run = TaskRun("drill_history", "backfill__1", "ti", 1)
    asked = here.ask("replay", "0:0", "0:1")
    here.work(asked, owner=run.owner, task_run=run)
    one = pages("/dags/drill_history/runs/backfill__1", follow_redirects=False)
    ((batch,),) = here.drill.ask("select batch_id from lockstep.batch where lane = 'replay'")
    assert one.headers["location"] == f"/lockstep/dags/drill_history/batches/{batch}"

    here.work(here.ask("replay", "1:0", "1:1"), owner=run.owner, task_run=run)
    several = pages("/dags/drill_history/runs/backfill__1", follow_redirects=False)
    assert several.headers["location"] == "/lockstep/dags/drill_history/batches?run=backfill__1"
    text = pages("/dags/drill_history/batches?run=backfill__1").text
    assert [int(each) for each in re.findall(r'/batches/(\d+)">', text)] == [batch + 1, batch]
    assert "/dags/drill_history/runs/backfill__1" in text


def test_a_record_whose_row_lives_in_another_database_is_found_there(pages, here, warehouse, monkeypatch):  # noqa: F811
    monkeypatch.setenv("LOCKSTEP_STORE_WAREHOUSE", warehouse)
    here.rewrite("import Append, Json, Limits, Pipeline", "import *")
    here.rewrite('Json("id string, n int")', 'Json("id string, n int", key="id")')
    here.rewrite("limits=", 'guarantee=Idempotent(), store=Postgres("WAREHOUSE"), limits=')
    here.rewrite('Append("public.drill")', 'Upsert("public.drill", key=("id",))')
    target = here.drill.home / "drill" / "target.sql"
    target.write_text(target.read_text().replace("primary key (_stream, _offset, _ordinal)", "primary key (id)"))
    stores = {"WAREHOUSE": warehouse}
    results_of(here.folder.pipeline, here.drill.dsn, stores).make(here.folder)
    here.at.stores.update(stores)
    here.drain()

    words = said(pages("/dags/drill/record?key=r7"))
    assert "1 row" in words
    assert "r7" in words
    place = re.search(r"-(\d) offset (\d+)", words)
    assert "1 row" in said(pages(f"/dags/drill/record?partition={place[1]}&offset={place[2]}"))
