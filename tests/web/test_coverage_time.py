"""Tests the coverage along time: each segment at its records' times, and empty ones between their neighbours."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import psycopg2
import pytest
from fastapi.testclient import TestClient

from dated import on_a_new_topic, send
from lockstep.adapters.postgres import OWNER, READER, transaction
from lockstep.ledger import times
from lockstep.ledger.picture import MOST_SEGMENTS, PLACES, Block
from lockstep.ledger.times import Span, Timed, _merged
from lockstep.web import place
from lockstep.web.app import app
from lockstep.web.clock import FIRST, LAST, Clock

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def minute(n: float) -> datetime:
    return NOON + timedelta(minutes=n)


@pytest.fixture
def shown(here, topic, monkeypatch):
    """Returns `shown("from=...")`: the coverage along time of a drill over a topic of two partitions."""
    on_a_new_topic(here, topic, 2)
    monkeypatch.setenv("LOCKSTEP_DSN", here.drill.dsn)
    monkeypatch.setenv("LOCKSTEP_KAFKA", here.drill.kafka)
    monkeypatch.setattr(place, "KNOWN", place.Remembered(seconds=0.1))
    served = app()
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
    assert answer.status_code == 422
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
"""


def test_many_segments_are_looked_at_in_places_and_found_one_by_one_from_near(here, shown, postgres):
    superuser = postgres.rpartition("/")[0] + "/" + here.drill.dsn.rpartition("/")[2]
    with closing(psycopg2.connect(superuser)) as conn, conn, conn.cursor() as cur:
        cur.execute(CROWD.format(topic=here.drill.topic, n=5_000, noon=NOON.isoformat()))
    whole, part = Span(minute(0), minute(5_000)), Span(minute(901), minute(902.9))
    with transaction(here.at.conn, READER) as cur:
        known = times.extents(cur, [1])
        far = times.blocks(cur, times.within(cur, known, whole), whole)
        near = times.blocks(cur, times.within(cur, known, part), part)

    assert shown().status_code == 200
    assert len(far) < MOST_SEGMENTS
    assert all(timed.block.dense for timed in far)
    assert [timed.block.from_offset for timed in far[1:]] == [timed.block.until_offset for timed in far[:-1]]
    assert [(timed.block.batch_id, timed.since) for timed in near] == [(902, minute(901)), (903, minute(902))]


def test_neighbouring_looks_are_one_block_no_wider_than_a_part_of_the_span():
    looks = [
        Timed(Block(1, 10 * n, 10 * n + 10, "batch", n, "live", NOON, dense=True), minute(n), minute(n + 1))
        for n in range(PLACES)
    ]
    drawn = _merged(looks, Span(minute(0), minute(PLACES)))
    assert (drawn[0].since, drawn[-1].until) == (minute(0), minute(PLACES))
    assert [each.since for each in drawn[1:]] == [each.until for each in drawn[:-1]]
    assert len(drawn) < PLACES / 4


@pytest.mark.parametrize("seconds", [0.001, 1, 59, 3_600, 86_400 * 3, 86_400 * 400, 86_400 * 365 * 50])
def test_the_axis_is_marked_at_round_times_within_it(seconds):
    clock = Clock(minute(0.3), minute(0.3) + timedelta(seconds=seconds))
    marks = clock.ticks()
    assert len(marks) <= 9
    assert all(0 <= x <= 1000 for x, _ in marks)
    assert marks or seconds < 3_600


def test_a_view_of_all_times_can_be_left_in_any_direction():
    assert Clock(FIRST, LAST).zooms()["out"] == (FIRST, LAST)
    assert Clock(FIRST, LAST).ticks()
    assert Clock(FIRST, LAST).hours() == []
