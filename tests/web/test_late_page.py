"""Tests the page of late records: each with its window, its lateness and its record, page by page, until it is admitted."""

from __future__ import annotations

import re

import pytest

from lockstep.steps.windows.admit import LateWanted, admit_late
from lockstep.steps.windows.emit import emit
from lockstep.web.pages import late_page
from support.scenes.here import ME
from support.scenes.windowed import event, into_windows
from web.answers import rows, said, utc


@pytest.fixture
def here(drill, produce):
    """Yields the drill in windows of a minute, with five late records of two batches."""
    made = into_windows(drill)
    made.drain()
    emit(made.at.conn, made.at.broker, made.folder.pipeline)
    produce(drill.topic, [event(1, "r1"), event(61, "r61"), event(2, "r2")], partition=0)
    made.drain()
    produce(drill.topic, [event(3, "r3")], partition=1)
    produce(drill.topic, [event(4, "r4")], partition=0)
    made.drain()
    yield made
    made.at.close()


def expected(here) -> list[tuple[int, int]]:
    """Returns partition and offset of each late row, the newest first."""
    query = """select s.partition, l."offset" from lockstep.late l join lockstep.stream s using (stream_id)
        order by l.batch_id desc, s.partition desc, l."offset" desc"""
    return here.drill.ask(query)


def places(answer, topic: str) -> list[tuple[int, int]]:
    return [(int(row[0].removeprefix(f"{topic}-")), int(row[1].replace(",", ""))) for row in rows(answer.text, "late")]


def test_each_late_record_has_its_window_its_lateness_and_the_way_to_its_bytes(pages, here):
    answer = pages("/dags/drill/late")
    words = said(answer)
    assert "table public.by_minute late rows 5 of all rows 3.23 % max_late_share 50.0 % lateness 0 seconds" in words
    assert "lockstep late drill --admit --reason WHY" in words
    assert places(answer, here.drill.topic) == expected(here)
    by = """select s.partition, l."offset", l.window_start, l.watermark - l.window_end, l.batch_id from lockstep.late l
        join lockstep.stream s using (stream_id)"""
    facts = {(partition, offset): more for partition, offset, *more in here.drill.ask(by)}
    for row, place in zip(rows(answer.text, "late"), expected(here), strict=True):
        start, lateness, batch = facts[place]
        assert row[3] == utc(start)
        seconds = lateness.total_seconds()
        assert row[5] == (f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min")
        assert (row[7], row[8]) == (str(batch), "no")
        partition, offset = place
        assert (
            f'href="/lockstep/dags/drill/record?topic={here.drill.topic}&amp;partition={partition}&amp;offset={offset}"'
            in answer.text
        )
    windows = re.findall(r"(2026-05-01 12:0\d:00) UTC 2026-05-01 12:0\d:00 UTC (\d+) ", words)
    assert windows == [("2026-05-01 12:01:00", "1"), ("2026-05-01 12:00:00", "4")]


def test_the_other_pages_lead_to_it(pages, here):
    ((batch, late),) = here.drill.ask("select batch_id, count(*) from lockstep.late group by 1 order by 1 limit 1")
    answer = pages(f"/dags/drill/batches/{batch}")
    assert f"{late} rows were late for public.by_minute" in said(answer)
    assert 'href="/lockstep/dags/drill/late?target=public.by_minute"' in answer.text
    ((mark,),) = here.drill.ask("select watermark from lockstep.batch order by batch_id desc limit 1")
    assert f"Judged by the watermark {utc(mark)}." in said(answer)
    assert 'href="/lockstep/dags/drill/time"' in pages("/").text


def test_the_share_is_drawn_beside_what_is_allowed(pages, here):
    text = pages("/dags/drill/late").text
    ((late, counted),) = here.drill.ask(
        "select (select count(*) from lockstep.late), (select sum(records) from lockstep.contribution)"
    )
    assert (late, counted) == (5, 150)
    assert '<rect width="32.3" height="16"><title>3.23 % of all rows were late' in text
    assert '<line x1="500.0" x2="500.0"' in text


def test_older_ones_are_pages_of_their_own_and_none_is_on_two(pages, here, monkeypatch):
    monkeypatch.setattr(late_page, "LATE_PER_PAGE", 2)
    seen, path = [], "/dags/drill/late"
    while path:
        answer = pages(path)
        seen.append(places(answer, here.drill.topic))
        older = re.search(r'<a href="(\?[^"]*before=[\d.-]+)">older</a>', answer.text)
        path = f"/dags/drill/late{older[1].replace('&amp;', '&')}" if older else ""
    assert [len(each) for each in seen] == [2, 2, 1]
    assert [place for each in seen for place in each] == expected(here)


def test_those_of_one_partition_are_shown_alone(pages, here):
    answer = pages("/dags/drill/late?partition=1")
    assert places(answer, here.drill.topic) == [place for place in expected(here) if place[0] == 1]
    assert "There is no late record of partition 2." in said(pages("/dags/drill/late?partition=2"))


def test_a_record_that_is_admitted_waits_for_its_replay_and_is_then_late_no_more(pages, here):
    asked = admit_late(here.at.conn, here.at.broker, here.folder, ME, LateWanted(partition=1))
    ((decision,),) = here.drill.ask("select decision_id from lockstep.decision where kind = 'admit-late'")
    admitted = {row[0].rpartition("-")[2]: row[8] for row in rows(pages("/dags/drill/late").text, "late")}
    assert admitted == {"1": f"by decision {decision}, no replay yet", "0": "no"}
    here.work(asked)
    answer = pages("/dags/drill/late")
    assert "late rows 4" in said(answer)
    assert {row[0].rpartition("-")[2] for row in rows(answer.text, "late")} == {"0"}


@pytest.mark.parametrize(
    "before", ["x", "1.2.3", "1.2.3.4.5.6", "99999999999999999999.1.1.1.1", "1.1.1.1.999999999999999999"]
)
def test_a_place_that_no_page_gave_is_refused(pages, here, before):
    assert here.at
    assert "before: names" in said(pages(f"/dags/drill/late?before={before}"), 400)


def test_without_late_records_and_without_windows_the_page_says_so(pages, drill, dags):
    dags(drill=False)
    assert "no record can be late" in said(pages("/dags/drill/late"))
    made = into_windows(drill)
    made.drain()
    assert "No record came too late." in said(pages("/dags/drill/late"))
    made.at.close()
