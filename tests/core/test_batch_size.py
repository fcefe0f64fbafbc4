"""Tests that a batch's size is explained by the limit that made it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.offsets import Bounds, OffsetRange, Stream, StreamRange, TopicPartition, TopicView
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline
from lockstep.core.planning.decisions import Caller, Pace, Situation, Start
from lockstep.core.planning.lanes import Piece
from lockstep.core.planning.live import decide
from lockstep.core.planning.requests import Request, RequestSituation, decide_request
from lockstep.core.states import Expected, Lane

if TYPE_CHECKING:
    from lockstep.core.planning.batch_size import Because

PIPELINE = Pipeline("orders", "t", Json("id string"), Append("public.orders"))
ME = Caller("host/1/1")


def waiting(*spans: int, pace: Pace | None = None) -> Situation:
    view = TopicView("cluster", "t", "id", {p: Bounds(0, span) for p, span in enumerate(spans)})
    streams = tuple(Stream(p + 1, TopicPartition("t", p), "cluster", "id", 0, 0, 0, 0) for p in range(len(spans)))
    return Situation(view, streams, pace=pace or Pace())


def planned(limits: Limits, situation: Situation) -> Because:
    decision = decide(replace(PIPELINE, limits=limits), situation, ME)
    assert isinstance(decision, Start)
    assert decision.because is not None
    assert decision.because.offsets == sum(item.offsets.span for item in decision.ranges)
    return decision.because


@pytest.mark.parametrize(
    ("limits", "pace", "limit", "text"),
    [
        (Limits(), Pace(), "end", "all 60,000 waiting offsets"),
        (Limits(records=60_000), Pace(), "end", "all 60,000 waiting offsets"),
        (Limits(records=16_084), Pace(), "records", "16,084 of 60,000 waiting offsets: limit records=16084"),
        (
            Limits(seconds=120),
            Pace(offsets_per_second=134.0),
            "seconds",
            "16,080 of 60,000 waiting offsets: limit seconds=120, at 134.0 offsets a second in earlier batches",
        ),
        (
            Limits(bytes=1_000_000, seconds=120),
            Pace(offsets_per_second=134.0, bytes_per_offset=100.0),
            "bytes",
            "10,000 of 60,000 waiting offsets: limit bytes=1000000, at 100.0 bytes an offset in earlier batches",
        ),
        (Limits(seconds=120), Pace(), "end", "all 60,000 waiting offsets"),
        (
            Limits(per_partition=20_000),
            Pace(),
            "per_partition",
            "40,000 of 60,000 waiting offsets: limit per_partition=20000",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_a_live_batch_names_the_limit_that_ended_it(limits, pace, limit, text):
    found = planned(limits, waiting(40_000, 20_000, pace=pace))
    assert (found.limit, str(found)) == (limit, text)
    assert found.document()["text"] == text
    assert found.document()["waiting"] == 60_000


def piece(begin: int, end: int, owner: int | None) -> Piece:
    return Piece(StreamRange(1, OffsetRange(TopicPartition("t", 0), begin, end)), Expected.BATCH, owner)


def asked(limits: Limits, *pieces: Piece) -> Because:
    situation = waiting(1_000)
    request = Request(3, "orders", Lane.REPLAY, 1, is_preview=False, is_closed=False, windows=(), who="ada", why="w")
    at = RequestSituation(request, situation.view, situation.streams, pieces)
    decision = decide_request(replace(PIPELINE, limits=limits), at, ME)
    assert isinstance(decision, Start)
    assert decision.because is not None
    return decision.because


def test_a_replay_names_the_segment_that_it_cannot_split():
    found = asked(Limits(records=150), piece(0, 100, 1), piece(100, 200, 2))
    assert str(found) == "100 of 200 waiting offsets: one unbroken range of whole segments per partition"
    larger = asked(Limits(records=50), piece(0, 100, 1), piece(100, 200, 2))
    assert (larger.limit, larger.offsets) == ("segment", 100)


def test_a_replay_of_everything_that_is_asked_for_names_the_end():
    assert str(asked(Limits(), piece(0, 100, 1), piece(100, 200, 2))) == "all 200 waiting offsets"


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.builds(
        Limits,
        records=st.integers(1, 90),
        per_partition=st.none() | st.integers(1, 30),
        seconds=st.none() | st.floats(0.1, 5),
    ),
    st.builds(Pace, st.none() | st.floats(0.5, 500)),
)
def test_without_the_named_limit_the_batch_is_longer_or_names_another(spans, limits, pace):
    found = planned(limits, waiting(*spans, pace=pace))
    if found.limit == "end":
        assert found.offsets == sum(spans)
        return
    without = {"records": 10**9} if found.limit == "records" else {found.limit: None}
    longer = planned(replace(limits, **without), waiting(*spans, pace=pace))
    assert longer.offsets > found.offsets or longer.limit != found.limit, "two limits may be as tight as one another"
