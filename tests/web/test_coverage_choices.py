"""Tests the coverage's choices: scale, last hours and time zone, and what it says of lag and of planned batches."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from lockstep.core.offsets import Bounds
from lockstep.ledger.views.picture import Block
from lockstep.web.pictures import drawing
from lockstep.web.pictures.heat import CELLS, heat
from lockstep.web.zone import ZONE, stamp, zone_of
from support.fakes.dated import on_a_new_topic, send
from web.answers import said

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATE = ("k", json.dumps({"id": "late", "n": 1}))


def boxes(text: str, kind: str) -> list[tuple[float, float]]:
    """Returns left edge and width of each block of a kind, without the legend's."""
    found = re.findall(rf'<rect class="{kind}[^"]*" x="([\d.]+)" width="([\d.]+)"', text)
    return [(float(x), float(width)) for x, width in found]


def strips(text: str) -> list[str]:
    return re.findall(r'<rect class="planned" x="[\d.]+" width="[\d.]+" y="13" height="7"', text)


def planned_replay(here):
    """Plans a replay of what partition 0 has, and goes no further."""
    from lockstep.core.planning.decisions import Caller  # noqa: PLC0415 - beside its one use
    from lockstep.steps.requests.plan_request import plan_request  # noqa: PLC0415 - the same

    asked = here.ask("replay", "0:0", "0:1")
    return plan_request(here.at.conn, here.at.broker, here.folder, asked.request_id, Caller("somebody"))


def test_what_is_planned_is_drawn_apart_from_what_is_committed(pages, here, produce):
    here.drain()
    produce(here.drill.topic, [LATE] * 5, partition=1)
    here.plan()

    answer = pages("/dags/drill/coverage")

    ((batch,),) = here.drill.ask("select batch_id from lockstep.batch where state = 'planned'")
    assert len(boxes(answer.text, "planned")) == 1
    assert f"batch {batch}, live, planned: not committed yet" in answer.text
    assert f"/lockstep/dags/drill/batches/{batch}" in answer.text
    assert "1 stretch planned, not committed yet" in said(answer)
    assert len(boxes(pages("/dags/drill/coverage?along=time").text, "planned")) == 1


def test_a_planned_replay_leaves_what_it_works_on_visible(pages, here):
    here.drain()
    planned_replay(here)
    text = pages("/dags/drill/coverage").text
    assert len(boxes(text, "live")) == 3
    assert len(strips(text)) == 1
    along = pages("/dags/drill/coverage?along=time").text
    assert len(strips(along)) == 1
    assert boxes(along, "planned")[0] in boxes(along, "live"), "it lies on the time of the records that it replaces"


def test_what_waits_is_drawn_along_time_from_its_first_record_until_now(pages, here, topic):
    on_a_new_topic(here, topic, 2)
    begun = datetime.now(UTC) - timedelta(hours=4)
    send(here, 0, [begun, begun + timedelta(hours=1)])
    here.drain()
    send(here, 0, [begun + timedelta(hours=2), begun + timedelta(hours=3)])

    answer = pages("/dags/drill/coverage?along=time")

    ((x, width),) = boxes(answer.text, "waiting")
    assert (round(x), round(x + width)) == (500, 1000)
    assert f"2 offsets wait from 2 on, since {begun + timedelta(hours=2):%Y-%m-%d %H:%M:%S} UTC" in answer.text
    assert "2 offsets wait in all" not in said(answer), "one page has all partitions"
    assert "2 offsets wait." in said(answer)


def test_the_last_hours_are_a_stretch_of_time_until_now(pages, here, topic):
    on_a_new_topic(here, topic, 1)
    now = datetime.now(UTC)
    send(here, 0, [now - timedelta(hours=5), now - timedelta(hours=4)])
    here.run()
    send(here, 0, [now - timedelta(hours=1.5), now - timedelta(hours=0.75)])
    here.run()

    answer = pages("/dags/drill/coverage?last=3")

    assert [(round(x), round(w)) for x, w in boxes(answer.text, "live")] == [(500, 250)]
    assert 'data-along="time"' in answer.text
    assert re.search(r'last=3"[^>]* aria-current="true">3 hours', answer.text)
    assert "last: Input should be greater than or equal to 1" in said(pages("/dags/drill/coverage?last=0"), 400)


def test_each_partition_may_have_its_own_scale(pages, here, produce):
    produce(here.drill.topic, [LATE] * 450, partition=2)
    here.drain()

    common, own = (pages(f"/dags/drill/coverage?scale={scale}").text for scale in ("common", "own"))

    ends = dict(here.drill.ask("select partition, position from lockstep.stream"))
    shares = [round(1000 * ends[p] / max(ends.values())) for p in range(3)]
    assert shares[0] < 200, "the topic is skewed"
    lanes = [part.split("</g>")[0] for part in common.split("<g ")[1:]]
    assert [round(sum(w for _, w in boxes(lane, "live"))) for lane in lanes] == pytest.approx(shares, abs=2)
    lanes = [part.split("</g>")[0] for part in own.split("<g ")[1:]]
    assert [round(sum(w for _, w in boxes(lane, "live"))) for lane in lanes] == [1000, 1000, 1000]
    assert f"<small>0 to {ends[0]}</small>" in own
    assert "Zoom in" not in own


def test_times_are_in_the_zone_that_the_reader_has_chosen_and_say_so(pages, here, topic):
    on_a_new_topic(here, topic, 1)
    send(here, 0, [NOON, NOON + timedelta(hours=1)])
    here.run()
    at = "/dags/drill/coverage?along=time&from=2026-05-01T12:00Z&until=2026-05-01T13:00Z"

    kolkata = pages(at, headers={"cookie": "lockstep_zone=Asia%2FKolkata"})

    assert "2026-05-01 17:30:00 +05:30 to 2026-05-01 18:30:00 +05:30, in Asia/Kolkata" in said(kolkata)
    assert 'name="from" value="2026-05-01T17:30:00.000+05:30"' in kolkata.text
    assert "05-01 17:45" in kolkata.text, "on the axis"
    assert "from (Asia/Kolkata)" in said(kolkata)
    assert '<html lang="en" data-zone="Asia/Kolkata">' in kolkata.text
    utc = pages(at)
    assert "2026-05-01 12:00:00 UTC to 2026-05-01 13:00:00 UTC, in UTC" in said(utc)
    again = pages("/dags/drill/coverage", params={"along": "time", "from": "2026-05-01T17:30:00.000+05:30"})
    assert "2026-05-01 12:00:00 UTC to" in said(again), "what the field holds leads to the same moment"


@pytest.mark.parametrize("name", [None, "", "UTC", "Mars/Olympus", "../../etc/passwd", "America", "\0", "x" * 9_000])
def test_a_zone_that_nobody_knows_is_utc(name):
    assert zone_of(name) is UTC


def test_a_moment_names_its_offset_and_the_ends_of_the_calendar_are_told_in_utc():
    token = ZONE.set(zone_of("America/New_York"))
    try:
        assert stamp(NOON) == "2026-05-01 08:00:00 -04:00"
        assert stamp(NOON, "minutes") == "2026-05-01 08:00 -04:00"
        assert stamp(datetime.min.replace(tzinfo=UTC)) == "0001-01-01 00:00:00 UTC"
    finally:
        ZONE.reset(token)


def rows(lags: list[int]) -> tuple[list, dict]:
    made = [SimpleNamespace(stream_id=i, topic="t", partition=i, position=10) for i in range(len(lags))]
    return made, {i: Bounds(0, 10 + lag) for i, lag in enumerate(lags)}


def test_the_strip_has_all_partitions_the_greatest_lag_first_and_names_the_worst():
    made = heat(*rows([0, 7, 1_000, 0]), page=2)
    assert [cell["words"] for cell in made["cells"]] == [
        "partition 2: 1,000 offsets wait",
        "partition 1: 7 offsets wait",
        "partition 0: 0 offsets wait",
        "partition 3: 0 offsets wait",
    ]
    assert [cell["shade"] for cell in made["cells"]] == [4, 2, 0, 0]
    assert [(cell["x"], cell["width"]) for cell in made["cells"]] == [(0, 250), (250, 250), (500, 250), (750, 250)]
    assert made["total"] == 1_007
    assert made["most"] == [
        {"topic": "t", "partition": 2, "lag": 1_000, "first": 2},
        {"topic": "t", "partition": 1, "lag": 7, "first": 0},
    ]


def test_many_partitions_share_the_cells_and_an_unknown_lag_is_counted():
    made, bounds = rows(list(range(1_001)))
    del bounds[3]
    found = heat(made, bounds, page=40)
    assert len(found["cells"]) == CELLS
    assert found["cells"][0]["words"] == "5 partitions: 996 to 1,000 offsets wait in each"
    assert round(sum(cell["width"] for cell in found["cells"])) == 1000
    assert found["unknown"] == 1
    assert found["most"][0] == {"topic": "t", "partition": 1_000, "lag": 1_000, "first": 1_000}
    assert heat(made, {}, page=40) is None


def blocks(*edges: tuple[float, float]) -> list[drawing.Placed]:
    shades = drawing.Shades(None, None)
    return [
        drawing.placed(Block(1, i, i + 1, "batch", i), (low, high - low), (low, high), shades)
        for i, (low, high) in enumerate(edges)
    ]


def test_blocks_that_overlap_lie_on_two_tracks_and_neighbours_do_not():
    assert [each.y for each in drawing.on_tracks(blocks((0, 500), (498, 800)))] == [0, 0]
    tracks = drawing.on_tracks(blocks((0, 800), (400, 800), (800, 900)))
    assert [(each.y, each.height) for each in tracks] == [(0, 9.5), (10.5, 9.5), (0, 9.5)]
