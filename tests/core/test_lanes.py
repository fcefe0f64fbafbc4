"""Tests that the rest of a fill or replay is done piece by piece, and each piece once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.errors import Refusal
from lockstep.core.offsets import Bounds, OffsetRange, StreamRange, TopicPartition, TopicView
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline
from lockstep.core.planning.bounds import AtBatch, AtOffsets, AtTime, parse_bound
from lockstep.core.planning.decisions import Blocked, Busy, Caller, GiveUp, Pace, Resume, Unfinished
from lockstep.core.planning.lanes import Piece, Taken, next_pieces, ranges_of, untaken
from lockstep.core.planning.requests import Request, RequestSituation, decide_request
from lockstep.core.states import Expected, Lane

UNHURRIED = Pace()


def piece(stream: int, begin: int, end: int, owner: int | None = None, partition: int | None = None) -> Piece:
    where = TopicPartition("t", stream if partition is None else partition)
    return Piece(
        StreamRange(stream, OffsetRange(where, begin, end)), Expected.BATCH if owner else Expected.SKIPPED, owner
    )


@st.composite
def segments(draw) -> list[Piece]:
    """Draws segments of up to three streams, some apart from their neighbour, each of its own batch."""
    found, owner = [], 1
    for stream in range(draw(st.integers(1, 3))):
        at = 0
        for _ in range(draw(st.integers(1, 6))):
            begin = at + draw(st.integers(0, 3))
            at = begin + draw(st.integers(1, 9))
            found.append(piece(stream, begin, at, owner))
            owner += 1
    return found


@st.composite
def batches(draw) -> list[Piece]:
    """Draws batches that read two streams at once, one behind another."""
    found, ends = [], [0, 0]
    for owner in range(1, draw(st.integers(2, 7))):
        for stream in draw(st.sampled_from([(0,), (1,), (0, 1)])):
            begin = ends[stream]
            ends[stream] = begin + draw(st.integers(1, 9))
            found.append(piece(stream, begin, ends[stream], owner))
    return found


@given(segments(), st.integers(1, 30))
def test_a_replay_takes_every_segment_once_and_whole(left, records):
    todo, done = sorted(left), []
    while todo:
        taken = next_pieces(Limits(records=records), UNHURRIED, todo, whole_batches=False)
        assert taken, todo
        assert set(taken) <= set(todo)
        assert sum(r.offsets.span for r in ranges_of(taken)) <= max(records, taken[0].end - taken[0].begin)
        done += taken
        todo = [p for p in todo if p not in taken]
    assert sorted(done) == sorted(left)


@given(segments(), st.integers(1, 30))
def test_a_batch_has_one_contiguous_range_per_stream(left, records):
    taken = next_pieces(Limits(records=records), UNHURRIED, sorted(left), whole_batches=False)
    for one, next_ in pairwise(taken):
        assert one.item.stream_id < next_.item.stream_id or one.end == next_.begin


@given(batches(), st.integers(1, 30))
def test_code_that_mixes_partitions_replays_whole_batches(left, records):
    todo = sorted(left)
    while todo:
        taken = next_pieces(Limits(records=records), UNHURRIED, todo, whole_batches=True)
        owners = {p.owner for p in taken}
        assert {p for p in todo if p.owner in owners} == set(taken)
        assert len(ranges_of(taken)) == len({p.item.stream_id for p in taken})
        for one, next_ in pairwise(taken):
            assert one.item.stream_id < next_.item.stream_id or one.end == next_.begin
        todo = [p for p in todo if p not in taken]


@given(st.integers(1, 40), st.integers(1, 10), st.integers(1, 12))
def test_a_fill_takes_as_much_as_the_limits_allow_and_cuts_what_is_longer(span, records, per_partition):
    at, taken = 0, []
    while at < span:
        left = (piece(0, at, span),)
        (part,) = next_pieces(
            Limits(records=records, per_partition=per_partition), UNHURRIED, left, whole_batches=False
        )
        assert part.begin == at
        assert part.end - part.begin <= min(records, per_partition)
        taken.append(part)
        at = part.end
    assert at == span


def test_two_streams_of_one_partition_do_not_share_a_batch():
    left = (piece(1, 0, 10, 1, partition=0), piece(2, 10, 20, 2, partition=0), piece(3, 0, 5, 3, partition=1))
    taken = next_pieces(Limits(), UNHURRIED, left, whole_batches=False)
    assert [p.item.stream_id for p in taken] == [1, 3]


def test_what_somebody_works_on_is_left_to_him():
    left = (piece(0, 0, 30), piece(1, 0, 10, 7), piece(1, 10, 20, 8))
    free, by = untaken(left, [Taken(0, 5, 10, 41), Taken(1, 0, 10, 42), Taken(0, 20, 21, None)])
    assert [(p.item.stream_id, p.begin, p.end) for p in free] == [(0, 0, 5), (0, 10, 20), (0, 21, 30), (1, 10, 20)]
    assert by == {41, 42}


def test_a_batch_that_is_worked_on_in_one_stream_is_left_whole_by_code_that_mixes_partitions():
    left = (piece(0, 0, 10, 7), piece(1, 0, 10, 7), piece(1, 10, 20, 8))
    free, _ = untaken(left, [Taken(0, 0, 10, 42)], whole_batches=True)
    assert [p.owner for p in free] == [8]


ORDERS = Pipeline("orders", "t", Json("id string"), Append("public.orders"))
LEFT = Unfinished(
    batch_id=7,
    owner="ada",
    lease_is_live=False,
    lease_until=datetime(2026, 5, 1, tzinfo=UTC),
    is_callers=False,
    ranges=(piece(1, 5, 9, 2).item,),
    logs=(("c", "t", "id"),),
)


@pytest.mark.parametrize(
    ("left", "is_preview", "decision"),
    [
        (replace(LEFT, lane=Lane.REPLAY, request_id=2), False, Resume(7)),
        (replace(LEFT, lane=Lane.REPLAY, request_id=2), True, "lockstep replay orders --request 2"),
        (replace(LEFT, lane=Lane.FILL, request_id=2), True, "lockstep fill orders --request 2"),
        (LEFT, True, "lockstep run orders"),
        (replace(LEFT, lane=Lane.REPLAY, request_id=2, is_preview=True), True, GiveUp),
        (replace(LEFT, lane=Lane.REPLAY, request_id=2, lease_is_live=True), True, Busy),
    ],
    ids=["a replay", "a preview", "beside a fill", "beside the live lane", "beside a preview", "beside one that works"],
)
def test_a_batch_that_another_process_has_left_is_finished_by_a_replay_and_by_no_preview(left, is_preview, decision):
    view = TopicView("c", "t", "id", {1: Bounds(0, 20)})
    request = Request(3, "orders", Lane.REPLAY, 1, is_preview=is_preview, is_closed=False, windows=(), who="a", why="w")
    found = decide_request(ORDERS, RequestSituation(request, view, (), (), working=(left,)), Caller("me"))
    if isinstance(decision, str):
        assert isinstance(found, Blocked)
        assert (found.next_command, "batch 7 (" in found.reason) == (decision, True)
    else:
        assert found == decision or (isinstance(decision, type) and isinstance(found, decision))


BOUNDS = [
    ("0:1200", AtOffsets({0: 1200})),
    ("0:1200,3:7", AtOffsets({0: 1200, 3: 7})),
    (" 17 ", AtBatch(17)),
    ("2026-11-20", AtTime(datetime(2026, 11, 20, tzinfo=UTC))),
    ("2026-11-20T10:00:00+02:00", AtTime(datetime(2026, 11, 20, 8, tzinfo=UTC))),
    ("2026-11-20T10:00:00Z", AtTime(datetime(2026, 11, 20, 8, tzinfo=UTC) + timedelta(hours=2))),
]


@pytest.mark.parametrize(("text", "bound"), BOUNDS, ids=[b[0] for b in BOUNDS])
def test_a_bound_is_offsets_a_batch_or_a_time(text, bound):
    assert parse_bound(text, "--from") == bound


@pytest.mark.parametrize(
    "text", ["", "yesterday", "0:", ":5", "-1:5", "0:5,0:6", "0:99999999999999999999", "9" * 30, "٣:٤"]
)
def test_anything_else_is_refused_with_the_option_it_stands_in(text):
    with pytest.raises(Refusal, match=r"^--until .* is no bound"):
        parse_bound(text, "--until")
