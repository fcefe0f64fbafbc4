"""Tests the coverage along time: each segment at its records' times, and empty ones between their neighbours."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import groupby
from types import SimpleNamespace

import psycopg2
import pytest
from fastapi.testclient import TestClient

from lockstep.adapters.postgres import OWNER, READER, transaction
from lockstep.ledger.views import picture, times
from lockstep.ledger.views.picture import PLACES, PLACES_PER_PICTURE
from lockstep.ledger.views.times import Span
from lockstep.web import place
from lockstep.web.app import pages_app
from lockstep.web.pictures.clock import CALENDAR_BEGIN, CALENDAR_END, Clock
from support.fakes.dated import on_a_new_topic, send

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def minute(n: float) -> datetime:
    return NOON + timedelta(minutes=n)


@pytest.fixture
def shown(here, topic, monkeypatch):
    """Returns `shown("from=...")`: the coverage along time of a drill over a topic of two partitions."""
    on_a_new_topic(here, topic, 2)
    monkeypatch.setenv("LOCKSTEP_DSN", here.drill.dsn)
    monkeypatch.setenv("LOCKSTEP_KAFKA", here.drill.kafka)
    monkeypatch.setattr(place, "REMEMBERED", place.Remembered(seconds=0.1))
    served = pages_app()
    for route in served.routes:
        for guard in route.dependant.dependencies if hasattr(route, "dependant") else []:
            served.dependency_overrides[guard.call] = lambda: SimpleNamespace(value={"drill"})
    client = TestClient(served)
    return lambda query="": client.get(f"/dags/drill/coverage?along=time&{query}")


def boxes(text: str, kind: str) -> list[tuple[float, float]]:
    """Returns left edge and width of each block of a kind, without the legend's."""
    found = re.findall(rf'<rect class="{kind}[^"]*" x="([\d.]+)" width="([\d.]+)"', text)
    return [(float(x), float(width)) for x, width in found]


def test_a_segment_reaches_from_its_first_records_time_to_its_last_ones(here, shown):
    send(here, 0, [minute(0), minute(15)])
    here.run()
    send(here, 0, [minute(45), minute(60)])
    here.run()

    answer = shown(f"from={NOON:%Y-%m-%dT%H:%M}&until={minute(60):%Y-%m-%dT%H:%M}Z")

    assert boxes(answer.text, "live") == [(0.0, 250.0), (750.0, 250.0)]
    assert "by the time that records carry" in answer.text
    assert "in UTC" in answer.text
    assert re.findall(r'/batches/(\d+)">', answer.text) == ["1", "2"]
    nearer = shown(f"from={minute(40):%Y-%m-%dT%H:%M}&until={minute(60):%Y-%m-%dT%H:%M}").text
    assert boxes(nearer, "live") == [(250.0, 750.0)]


def test_what_was_skipped_lies_between_its_neighbours_and_a_reject_where_it_was_made(here, shown):
    send(here, 0, [minute(0), minute(10)])
    here.run()
    send(here, 0, [minute(20)])
    here.skip()
    send(here, 0, [minute(30), minute(40)])
    here.run()
    send(here, 1, [minute(20)], value="no JSON")
    here.run()

    text = shown().text

    assert [[round(edge) for edge in box] for box in boxes(text, "skipped")] == [[250, 500]]
    assert [round(float(x)) for x in re.findall(r'<circle class="reject" cx="([\d.]+)" cy="17', text)] == [500]
    assert "1 skipped stretch" in text


def test_two_batches_with_records_of_the_same_time_lie_on_two_tracks(here, shown):
    for _ in range(2):
        send(here, 0, [minute(0), minute(60)])
        here.run()

    text = shown().text

    drawn = re.findall(
        r'<rect class="live[^"]*" x="([\d.]+)" width="([\d.]+)"(?: y="([\d.]+)")? height="([\d.]+)"', text
    )
    assert {(x, width) for x, width, *_ in drawn} == {("0.0", "1000.0")}
    assert len({y for *_, y, _ in drawn}) == 2, "one of them is moved down"
    assert len({height for *_, height in drawn}) == 1


def test_the_end_of_the_newest_complete_hour_is_drawn_among_the_marks_of_hours(here, shown):
    send(here, 0, [minute(0), minute(120)])
    here.drain()
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("insert into lockstep.complete_hour values ('drill', %s, '{}')", (minute(60),))
        cur.execute(
            "insert into lockstep.hour_offsets select 'drill', %s, stream_id, 0, 0 from lockstep.stream", (minute(60),)
        )
    text = shown().text
    assert re.findall(r'<line class="through" x1="([\d.]+)"', text) == ["500.0", "8"], "and in the legend"
    assert "Complete through 2026-05-01 13:00 UTC" in text
    assert len(re.findall(r'<line class="hour"', text)) == 3
    assert "revision" not in text


def test_hours_that_changed_after_they_were_told_are_named_with_their_revision(here, shown):
    send(here, 0, [minute(0), minute(120)])
    here.drain()
    telling = "insert into lockstep.hour_told (pipeline, until, revision, told_by) values ('drill', %s, %s, 'me')"
    for n in (60, 120):
        with transaction(here.at.conn, OWNER) as cur:
            cur.execute("insert into lockstep.complete_hour values ('drill', %s, '{}')", (minute(n),))
            cur.execute(
                "insert into lockstep.hour_offsets select 'drill', %s, stream_id, 0, 0 from lockstep.stream",
                (minute(n),),
            )
            cur.execute(telling, (minute(n), 1))
            cur.execute("insert into lockstep.hour_changed values ('drill', %s, 1, 1)", (minute(n),))
    assert (
        "Changed after they were told: the hour until 2026-05-01 14:00 UTC, revision 1, which is told again;"
        in shown().text
    )
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute(telling, (minute(60), 2))
    assert "the hour until 2026-05-01 13:00 UTC, revision 2." in shown().text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("from=yesterday", "is no ISO 8601 time"),
        ("from=2026-05-02&until=2026-05-01", "a view ends after it begins"),
        ("from=0001-01-01T00:00%2B23:00", "is no ISO 8601 time"),
    ],
)
def test_a_view_that_cannot_be_shown_is_refused_in_one_line(here, shown, query, said):
    send(here, 0, [minute(0)])
    here.drain()
    answer = shown(query)
    assert answer.status_code == 400
    assert said in answer.text


def test_a_pipeline_without_a_record_has_an_hour_to_look_at(here, shown):
    here.run()
    assert shown().status_code == 200
    assert shown("from=0001-01-01&until=9999-12-31").status_code == 200


# One stream in which each minute a batch of ten offsets was committed, with all guards off.
CROWD = """
set session_replication_role = replica;
insert into lockstep.pipeline values ('drill') on conflict do nothing;
insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset, position)
values ('drill', 'c', '{topic}', 'i', 0, 0, 0, 0, {n} * 10);
insert into lockstep.batch (pipeline, lane, token, owner, lease_until, state, closed_at)
select 'drill', 'live', i, 'me', now(), 'committed', now() from generate_series(1, {n}) i;
insert into lockstep.batch_range select i, 1, int8range(10 * i - 10, 10 * i) from generate_series(1, {n}) i;
insert into lockstep.result (batch_id, token, stream_id, delivered, written, filtered, rejected, rows, bytes,
    min_timestamp, max_timestamp, digest_sum, digest_squares, log_start_before, log_start_after, rows_digest, rejects_digest)
select i, i, 1, 10, 10, 0, 0, 10, 10, '{noon}'::timestamptz + (i - 1) * interval '1 min',
    '{noon}'::timestamptz + i * interval '1 min' - interval '1 s', 0, 0, 0, 0, 0, 0 from generate_series(1, {n}) i;
insert into lockstep.commit (batch_id, stream_id, token, definition_hash) select i, 1, i, 'd1' from generate_series(1, {n}) i;
insert into lockstep.coverage select 1, int8range(10 * i - 10, 10 * i), 'batch', i from generate_series(1, {n}) i;
insert into lockstep.request (pipeline, opened_as, lane, token, who, why)
values ('drill', 'drill', 'replay', 1, 'me', 'a part of it');
update lockstep.batch set lane = 'replay', request_id = 1 where batch_id between {n} / 5 * 2 + 1 and {n} / 5 * 3;
"""
# One more batch of the stream, which is as wide as all others together.
WIDE = """
insert into lockstep.batch (pipeline, lane, token, owner, lease_until, state, closed_at)
values ('drill', 'live', {n} + 1, 'me', now(), 'committed', now());
insert into lockstep.coverage values (1, int8range({n} * 10, {n} * 20), 'batch', {n} + 1);
update lockstep.stream set position = {n} * 20;
"""


def test_many_segments_are_looked_at_in_places_and_found_one_by_one_from_near(here, shown, postgres):
    superuser = postgres.rpartition("/")[0] + "/" + here.drill.dsn.rpartition("/")[2]
    with closing(psycopg2.connect(superuser)) as conn, conn, conn.cursor() as cur:
        cur.execute(CROWD.format(topic=here.drill.topic, n=5_000, noon=NOON.isoformat()))
    whole, part = Span(minute(0), minute(5_000)), Span(minute(901), minute(902.9))
    with transaction(here.at.conn, READER) as cur:
        known = times.extents(cur, [1])
        seen = times.glances(cur, known)
        far = times.blocks_by_time(cur, times.within(cur, known, seen, whole), whole)
        near = times.blocks_by_time(cur, times.within(cur, known, seen, part), part)

    assert shown().status_code == 200
    assert all(timed.block.dense for timed in far)
    assert PLACES_PER_PICTURE <= len(far) <= PLACES_PER_PICTURE + 2, "a part in which the lane changes is two blocks"
    assert [timed.block.from_offset for timed in far[1:]] == [timed.block.until_offset for timed in far[:-1]]
    assert [timed.since for timed in far[1:]] == [timed.until for timed in far[:-1]]
    assert (far[0].since, far[-1].until) == (minute(0), minute(5_000) - timedelta(seconds=1))
    assert [lane for lane, _ in groupby(timed.block.lane for timed in far)] == ["live", "replay", "live"]
    replays = [timed for timed in far if timed.block.lane == "replay"]
    assert abs(replays[0].since - minute(2_000)) <= whole.step
    assert abs(replays[-1].until - minute(3_000)) <= whole.step
    assert [(timed.block.batch_id, timed.since) for timed in near] == [(902, minute(901)), (903, minute(902))]


def test_along_offsets_many_segments_are_drawn_by_lane_and_a_wide_batch_is_one_block(here, shown, postgres):
    superuser = postgres.rpartition("/")[0] + "/" + here.drill.dsn.rpartition("/")[2]
    with closing(psycopg2.connect(superuser)) as conn, conn, conn.cursor() as cur:
        cur.execute(CROWD.format(topic=here.drill.topic, n=5_000, noon=NOON.isoformat()) + WIDE.format(n=5_000))
    with transaction(here.at.conn, READER) as cur:
        far = picture.blocks_by_offset(cur, picture.View((1,), 0, 100_000))
        near = picture.blocks_by_offset(cur, picture.View((1,), 9_010, 9_030))

    assert shown("along=offsets").status_code == 200
    assert all(block.dense for block in far)
    assert [block.from_offset for block in far[1:]] == [block.until_offset for block in far[:-1]]
    assert (far[0].from_offset, far[-1].until_offset) == (0, 100_000)
    assert [lane for lane, _ in groupby(block.lane for block in far)] == ["live", "replay", "live"]
    widths = [block.until_offset - block.from_offset for block in far]
    step, part = 100_000 / PLACES, 100_000 / PLACES_PER_PICTURE
    assert max(widths[:-1]) <= part + step
    assert 50_000 <= widths[-1] <= 50_000 + part + step, "the wide batch, and its neighbours in one part"
    assert abs(min(b.from_offset for b in far if b.lane == "replay") - 20_000) <= step
    assert abs(max(b.until_offset for b in far if b.lane == "replay") - 30_000) <= step
    assert [(b.from_offset, b.until_offset, b.batch_id, b.dense) for b in near] == [
        (9_010, 9_020, 902, False),
        (9_020, 9_030, 903, False),
    ]


@pytest.mark.parametrize("seconds", [0.001, 1, 59, 3_600, 86_400 * 3, 86_400 * 400, 86_400 * 365 * 50])
def test_the_axis_is_marked_at_round_times_within_it(seconds):
    clock = Clock(minute(0.3), minute(0.3) + timedelta(seconds=seconds))
    marks = clock.ticks()
    assert len(marks) <= 9
    assert all(0 <= x <= 1000 for x, _ in marks)
    assert marks or seconds < 3_600


def test_a_view_of_all_times_can_be_left_in_any_direction():
    assert Clock(CALENDAR_BEGIN, CALENDAR_END).zooms()["out"] == (CALENDAR_BEGIN, CALENDAR_END)
    assert Clock(CALENDAR_BEGIN, CALENDAR_END).ticks()
    assert Clock(CALENDAR_BEGIN, CALENDAR_END).hours() == []
