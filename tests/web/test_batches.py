"""Tests the page of one batch with its surroundings, and that of the batches of a DAG run."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime
from html import unescape

import psycopg2
import pytest

from lockstep.core.planning.decisions import Caller, TaskRun
from lockstep.core.planning.history import HistoryRun, read_form
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.targets.stores.stores import results_of
from stores.conftest import warehouse  # noqa: F401 - a fixture
from support.scenes.here import into_two
from web.answers import said


def test_a_batch_shows_the_lease_and_the_code_of_its_attempt_and_who_asked_for_it(pages, here):
    here.drain()
    here.replay("0:0", "0:1")
    batch = max(batch for (batch,) in here.drill.ask("select batch_id from lockstep.batch"))
    ((hash_, code),) = here.drill.ask("select definition_hash, code_version from lockstep.definition")

    words = said(pages(f"/dags/drill/batches/{batch}"))
    assert "asked for by me: a test" in words
    assert "given back" in words
    assert "process a reader of the tests" in words
    assert f"{hash_} {code}" in words


def test_a_batch_of_several_targets_says_what_each_table_got(pages, drill):
    here = into_two(drill)
    with closing(here.at):
        here.run()
    words = said(pages("/dags/drill/batches/1"))
    assert "public.drill: 150 inserted. public.newest: 150 inserted." in words
    assert "left as it was" not in words


def test_an_attempt_of_a_command_line_is_named_by_its_process_and_its_host(pages, here):
    owner = "warehouse-7/18400/106439/0f3c9d5e/4026531836"

    here.run(owner=owner)

    assert f'title="{owner}">command line, pid 18400 on warehouse-7</span>' in pages("/dags/drill/batches/1").text


def test_rejects_are_counted_by_reason_and_lead_to_their_records(pages, here, produce):
    produce(here.drill.topic, [("k", "no json")] * 25, partition=0)
    here.drain()
    ((first,),) = here.drill.ask("select position - 25 from lockstep.stream where partition = 0")
    ((batch,),) = here.drill.ask("select distinct batch_id from lockstep.reject")

    answer = pages(f"/dags/drill/batches/{batch}")

    places = " ".join(f"0:{first + i}" for i in range(5))
    assert f"not JSON: JSONDecodeError 25 {places} and 20 more" in said(answer)
    assert answer.text.count("not JSON: JSONDecodeError") == 1
    assert f"/lockstep/dags/drill/record?topic={here.drill.topic}&amp;partition=0&amp;offset={first}" in answer.text
    assert f"lockstep rejects drill --batch {batch}" in answer.text


def test_a_redrive_is_a_replay_of_the_segments_with_rejects_that_the_form_takes(pages, here, produce, dags):
    produce(here.drill.topic, [("k", "no json")] * 3, partition=0)
    here.drain()
    ((batch,),) = here.drill.ask("select distinct batch_id from lockstep.reject")
    page = f"/dags/drill/batches/{batch}"
    assert f"On the command line: lockstep rejects drill --batch {batch} --redrive" in said(pages(page))
    assert "Copy the values" not in said(pages(page)), "nobody knows of its history's DAG"

    dags("lockstep", "history", drill_history=True)
    text = pages(page).text
    assert '<a class="button" href="/dags/drill_history" target="_top">' in text
    conf = json.loads(unescape(re.search(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)[1]))
    held = here.drill.ask(
        "select partition || ':' || lower(offsets), partition || ':' || upper(offsets) from lockstep.coverage"
        " join lockstep.stream using (stream_id) where batch_id = %s and partition = 0",
        batch,
    )
    assert list(zip(conf["from_offsets"], conf["until_offsets"], strict=True)) == held
    run = HistoryRun("manual__1", "manual", 0, None, conf, conf)
    assert read_form(run).lanes == ("replay",), "the form takes it as it is"


def test_a_batch_says_how_long_it_took_and_how_many_rows_it_wrote_in_a_second(pages, here, postgres):
    here.drain()
    superuser = postgres.rpartition("/")[0] + "/" + here.drill.dsn.rpartition("/")[2]
    with closing(psycopg2.connect(superuser)) as conn, conn, conn.cursor() as cur:
        cur.execute("set local session_replication_role = replica")
        cur.execute("update lockstep.batch set planned_at = closed_at - interval '50 s'")
    ((batch, written),) = here.drill.ask("select batch_id, sum(written)::int from lockstep.result group by 1")

    words = said(pages("/dags/drill/batches"))

    assert f"{batch} committed live" in words
    assert f" {written} 0 50 s {round(written / 50)} 1 " in words


def test_batches_are_chosen_by_state_and_lane(pages, here, produce):
    here.drain()
    here.replay("0:0", "0:1")
    produce(here.drill.topic, [("k", '{"id": "late", "n": 1}')], partition=1)
    here.plan()

    def listed(query: str) -> list[tuple[int, str]]:
        text = pages(f"/dags/drill/batches?{query}").text
        return [
            (int(batch), state) for batch, state in re.findall(r'/batches/(\d+)">\d+</a></td><td class="(\w+)"', text)
        ]

    assert listed("") == [(3, "planned"), (2, "committed"), (1, "committed")]
    assert listed("state=planned") == [(3, "planned")]
    assert listed("state=committed&lane=replay") == [(2, "committed")]
    assert listed("state=committed&before=2") == [(1, "committed")]
    assert "There is no abandoned batch" in said(pages("/dags/drill/batches?state=abandoned"))
    assert "state: lost is none of all, planned" in said(pages("/dags/drill/batches?state=lost"), 400)


def test_batches_with_rejects_are_chosen_and_the_link_to_older_ones_keeps_the_choice(pages, here, produce, monkeypatch):
    monkeypatch.setattr("lockstep.web.pages.batches_page.BATCHES_PER_PAGE", 1)
    here.drain()
    for value in ("no json", '{"id": "good", "n": 1}', "no json again"):
        produce(here.drill.topic, [("k", value)], partition=1)
        here.drain()

    def listed(query: str) -> list[int]:
        found = re.findall(r'/batches/(\d+)">\d+</a></td><td class="\w+"', pages(f"/dags/drill/batches?{query}").text)
        return [int(batch) for batch in found]

    assert here.drill.ask("select batch_id from lockstep.reject order by 1") == [(2,), (4,)]
    assert listed("rejects=with+rejects") == [4]
    older = unescape(re.search(r'href="\?([^"]+)">older', pages("/dags/drill/batches?rejects=with+rejects").text)[1])
    assert listed(older) == [2]
    assert "There is no batch of the lane replay with rejects." in said(
        pages("/dags/drill/batches?lane=replay&rejects=with+rejects")
    )
    assert "rejects: some is none of all, with rejects" in said(pages("/dags/drill/batches?rejects=some"), 400)


@pytest.mark.parametrize(
    ("run", "log"),
    [
        (TaskRun("drill", "manual__1", "ti", 2, "stage"), "/dags/drill/runs/manual__1/tasks/stage?try_number=2"),
        (TaskRun("drill", "manual__1", "ti", 1, "run"), "/dags/drill/runs/manual__1/tasks/run?try_number=1"),
        (TaskRun("fleet", "a b", "ti", 1, "work", 0), "/dags/fleet/runs/a%20b/tasks/work/mapped/0?try_number=1"),
        (TaskRun("drill", "manual__1", "ti", 1), None),
    ],
    ids=["five tasks", "one task", "a fleet", "an older attempt"],
)
def test_the_log_of_an_attempt_is_that_of_the_task_that_made_it(pages, here, run, log):
    caller = Caller(run.owner, task_run=run)
    batch = plan(here.at.conn, here.at.broker, here.folder, caller, datetime.now(UTC)).batch_id
    stage(here.at, here.engine, here.folder, batch, caller)

    text = unescape(pages(f"/dags/drill/batches/{batch}").text)

    assert re.findall(r'href="([^"]+)"[^>]*>log<', text) == ([log] if log else [])
    assert here.drill.ask("select task_id, map_index from lockstep.attempt") == [(run.task_id, run.map_index)]


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
