"""Tests the page of event time: the watermark, what holds it, the windows with their states, and the next one."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from lockstep.steps.windows.emit import emit
from lockstep.web.pages import time_page
from lockstep.web.pictures.event_lanes import completeness, corrections, event_lanes
from support.scenes.windowed import NOON, event, into_windows
from support.servers.scheduled import wait_for
from web.answers import rows, said, utc

MINUTE = timedelta(minutes=1)


@pytest.fixture
def into(drill):
    """Returns `into(of_target=..., of_time=...)`, which leads the drill into windows of a minute."""
    made = []

    def lead(**options: str):
        made.append(into_windows(drill, **options))
        return made[-1]

    yield lead
    for each in made:
        each.at.close()


def show(here) -> None:
    """Commits what is there, and shows what the watermark has passed."""
    here.drain()
    emit(here.at.conn, here.at.broker, here.folder.pipeline)


def at(minute: int) -> str:
    return utc(NOON + minute * MINUTE)


def window(minute: int, state: str = "open", late: int = 0, **more: Any) -> dict:
    """A window of a minute, as the ledger tells it."""
    start = NOON + minute * MINUTE
    known = {
        "start": start,
        "end": start + MINUTE,
        "state": state,
        "keys": 2,
        "records": 4,
        "revisions": 0,
        "late": late,
    }
    return known | more


def stream(partition: int, time, seen, idle_at=None) -> dict:
    return {"topic": "t", "partition": partition, "position": 0, "time": time, "seen": seen, "idle_at": idle_at}


def test_the_page_says_watermark_windows_and_the_next_one(pages, into):
    here = into(of_target=', lateness="1 hour"')
    show(here)
    ((mark,),) = here.drill.ask("select watermark from lockstep.event_time")

    answer = pages("/dags/drill/time")

    words = said(answer)
    assert f"watermark {utc(mark)} behind the clock" in words
    assert "open 30 due 0 emitted 120 updated since 0 late rows 0" in words
    assert (
        f"Next window: until {at(3)} , 30 keys. It comes out with the run behind an event of {at(3)} or later" in words
    )
    passed = f"{int(100 * (mark - NOON - 2 * MINUTE) / MINUTE)} %"
    assert rows(answer.text, "windows") == [
        [at(2), at(3), "open", passed, "30", "30", "0", "0"],
        [at(1), at(2), "emitted", "100 %", "60", "60", "0", "0"],
        [at(0), at(1), "emitted", "100 %", "60", "60", "0", "0"],
    ]
    assert "lockstep windows drill --target public.by_minute" in words


def test_the_partition_that_holds_the_watermark_is_named_with_the_state_of_its_log(pages, into, produce):
    here = into()
    show(here)
    held = "select s.partition, t.seen from lockstep.stream s join lockstep.stream_time t using (stream_id) order by 2 limit 1"
    ((partition, seen),) = here.drill.ask(held)

    words = said(pages("/dags/drill/time"))

    moment = utc(seen)
    its = f"{here.drill.topic}-{partition} {moment} {moment} \N{EN DASH} its newest committed"
    assert its in words
    assert "it is silent: no record waits in it, and it holds the watermark until one comes" in words
    assert "the definition says no idle" in words
    produce(here.drill.topic, [event(200, "new")] * 3, partition=partition)
    wait_for(lambda: "3 of its records wait to be committed" in said(pages("/dags/drill/time")), "it is seen", 30)


def test_an_open_transaction_that_holds_the_watermark_is_told_with_its_offsets(pages, into, monkeypatch):
    here = into()
    show(here)
    warning = {"partition": 0, "message": "a transaction is open at offset 50", "next": "lockstep status drill"}
    streams = [{"partition": p, "lag_records": 0} for p in range(3)]
    facts = {"streams": streams, "warnings": [warning | {"partition": p} for p in range(3)]}
    monkeypatch.setattr(time_page, "statuses", lambda names: dict.fromkeys(names, (facts, None)))
    words = said(pages("/dags/drill/time"))
    assert "a transaction is open at offset 50 Next: lockstep status drill" in words
    assert "it is silent" not in words


def test_with_idle_the_page_says_until_when_a_silent_log_holds_a_window(pages, into):
    here = into(of_time=', delay="10 seconds", idle="400 days"')
    show(here)
    words = said(pages("/dags/drill/time"))
    assert "A partition holds the watermark no longer than 400 days without records." in words
    assert "it holds the watermark no longer than 400 days" in words
    latest = NOON + 3 * MINUTE + timedelta(seconds=10, days=400)
    assert f"; if the log stays silent, by {utc(latest)} ." in words.replace(utc(latest) + ".", utc(latest) + " .")


def test_a_window_that_was_corrected_says_how_often(pages, into, produce):
    here = into(of_target=', lateness="1 hour"')
    show(here)
    produce(here.drill.topic, [event(1, "r1"), event(2, "r2")], partition=0)
    show(here)
    answer = pages("/dags/drill/time")
    assert rows(answer.text, "windows")[-1] == [at(0), at(1), "emitted", "100 %", "60", "62", "2", "0"]
    assert "updated since 2" in said(answer)
    assert len(re.findall(r'<rect class="corrected" x="[\d.]+" y=', answer.text)) == 1


def test_a_silent_log_that_is_idle_holds_the_watermark_as_such(pages, into):
    show(into(of_time=', idle="1 hour"'))
    words = said(pages("/dags/drill/time"))
    assert "it is idle it is silent: no record waits in it, and it holds the watermark no longer than 1 hour" in words
    assert "its newest committed event" not in words
    assert "open 0 due 0 emitted 150" in words


def test_windows_that_are_due_are_said_with_the_next_command(pages, into, spoil):
    show(into())
    spoil("update lockstep.window_state set revision = 0 where ends = '2026-05-01 12:02:00Z'")
    words = said(pages("/dags/drill/time"))
    assert "60 windows are due and not shown yet. Next: lockstep windows drill --target public.by_minute" in words


def test_without_windows_the_page_says_what_they_are(pages, drill, dags, here):
    dags(drill=False)
    assert "Nothing of drill goes by event time" in said(pages("/dags/drill/time"))
    here.run()
    assert "Nothing of drill goes by event time" in said(pages("/dags/drill/time"))
    assert "There is no pipeline nobody." in said(pages("/dags/nobody/time"), 404)
    assert drill.ask("select count(*) from lockstep.event_time") == [(0,)]


def test_another_table_or_partition_is_refused_by_name(pages, into):
    show(into())
    assert "No target public.other of drill has windows." in said(pages("/dags/drill/time?target=public.other"), 404)
    assert "Pipeline drill has only 3 partitions." in said(pages("/dags/drill/time?first=3"), 404)


def test_windows_beside_each_other_share_a_track_and_windows_that_overlap_do_not():
    side = event_lanes([window(0), window(1), window(2)], [], None)
    assert [(bar["x"] < 1_000, bar["y"]) for bar in side["bars"]] == [(True, 0)] * 3
    over = event_lanes([window(0, end=NOON + 2 * MINUTE), window(1), window(2)], [], None)
    assert [bar["y"] for bar in over["bars"]] == [0, 17, 0]


def test_an_open_window_is_filled_as_far_as_the_watermark_and_no_further():
    mark = NOON + MINUTE + timedelta(seconds=15)
    assert [completeness(window(minute), mark) for minute in (0, 1, 2)] == [1.0, 0.25, 0.0]
    assert completeness(window(2, "closed"), mark) == 1.0
    assert completeness(window(0), None) == 0.0
    drawn = event_lanes([window(1)], [], mark)
    assert drawn["bars"][0]["complete"] == pytest.approx(drawn["bars"][0]["width"] / 4, abs=0.01)
    assert drawn["watermark_x"] == pytest.approx(drawn["bars"][0]["x"] + drawn["bars"][0]["complete"], abs=0.01)


def test_only_shown_windows_have_corrections():
    assert corrections(window(0, "emitted", revisions=5)) == 3
    assert corrections(window(0, "closed", revisions=2)) == 0
    assert corrections(window(0, "open", revisions=0)) == 0


def test_a_lane_ends_at_its_time_and_goes_on_to_what_it_has_seen():
    mark = NOON + 2 * MINUTE
    drawn = event_lanes(
        [],
        [stream(0, mark, mark + MINUTE), stream(1, mark + 2 * MINUTE, mark, mark + 2 * MINUTE), stream(2, None, None)],
        mark,
    )
    first, idle, nothing = drawn["lanes"]
    assert first["until"] == drawn["watermark_x"] == first["seen"][0]
    assert idle["idle"][0] == drawn["watermark_x"]
    assert (idle["seen"], first["idle"]) == (None, None)
    assert (nothing["until"], nothing["seen"], nothing["idle"]) == (None, None, None)
    assert event_lanes([], [stream(0, None, None)], None) is None


def test_partitions_far_away_leave_the_windows_their_room():
    far = NOON + timedelta(days=200)
    drawn = event_lanes([window(0), window(1)], [stream(0, far, far), stream(1, NOON - timedelta(days=9), None)], far)
    assert sum(bar["width"] for bar in drawn["bars"]) > 600
    assert (drawn["lanes"][0]["until"], drawn["lanes"][1]["until"]) == (1_000, 0)
    assert drawn["watermark_x"] is None, "it is outside"


def test_a_window_that_begins_later_than_now_leaves_the_others_their_room():
    far = window(0, start=NOON.replace(year=2099), end=NOON.replace(year=2099) + MINUTE)
    drawn = event_lanes([window(0), window(1), far], [stream(0, NOON, NOON)], NOON, NOON + 9 * MINUTE)
    assert (len(drawn["bars"]), drawn["ahead"]) == (2, 1)
    assert sum(bar["width"] for bar in drawn["bars"]) > 600
    alone = event_lanes([far], [], None, NOON)
    assert (len(alone["bars"]), alone["ahead"]) == (1, 0), "a picture of nothing says less"


def test_the_ends_of_the_calendar_are_drawn():
    far = NOON.replace(year=9989)
    drawn = event_lanes([window(0), window(0, start=far, end=far + MINUTE)], [], far)
    assert drawn["bars"][1]["x"] > 900
