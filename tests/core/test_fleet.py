"""Tests the decision at a glance: a plan's own where the facts are plain, and none where a plan must look closer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep import Append, Archive, Json, Limits, Pipeline
from lockstep.core.fleet.glance import Known, decide_at_a_glance
from lockstep.core.health.ownership import Owner, Table
from lockstep.core.offsets import Bounds, OffsetRange, Stream, StreamRange, TopicPartition, TopicView
from lockstep.core.planning.decisions import NO_PACE, Idle, Pace, Start

ORDERS = Pipeline("orders", "orders.v1", Json("id string"), Append("public.orders"), limits=Limits(seconds=10))
OWNS = {Table("", "public.orders"): Owner("orders")}


def stream(partition: int, position: int) -> Stream:
    return Stream(partition + 1, TopicPartition("orders.v1", partition), "c", "t", 0, 0, 0, position, 4)


KNOWN = Known((stream(0, 7), stream(1, 9)), owns=OWNS)
VIEW = TopicView("c", "orders.v1", "t", {0: Bounds(2, 7, 4), 1: Bounds(9, 9, 4)})
MORE = replace(VIEW, bounds={0: Bounds(2, 100, 4), 1: Bounds(9, 9, 4)})


def test_what_a_plan_would_decide_is_said():
    assert decide_at_a_glance(ORDERS, KNOWN, VIEW, NO_PACE) == Idle("every position stands at the log's stable end")
    paused = replace(KNOWN, pause="paused by me: a holiday")
    assert decide_at_a_glance(ORDERS, paused, MORE, NO_PACE) == Idle("paused by me: a holiday")
    start = decide_at_a_glance(ORDERS, KNOWN, MORE, Pace(offsets_per_second=5))
    assert start == Start((StreamRange(1, OffsetRange(TopicPartition("orders.v1", 0), 7, 57)),))
    assert (start.because.limit, start.because.waiting) == ("seconds", 93)


@pytest.mark.parametrize(
    ("known", "view", "pipeline"),
    [
        pytest.param(
            replace(KNOWN, needs_plan=True), VIEW, ORDERS, id="a batch is unfinished, or a transform is promoted"
        ),
        pytest.param(replace(KNOWN, streams=()), replace(VIEW, bounds={}), ORDERS, id="never planned"),
        pytest.param(replace(KNOWN, streams=KNOWN.streams[:1]), VIEW, ORDERS, id="a partition is new"),
        pytest.param(KNOWN, replace(VIEW, bounds={0: VIEW.bounds[0]}), ORDERS, id="a partition is gone"),
        pytest.param(KNOWN, replace(VIEW, bounds=VIEW.bounds | {0: Bounds(2, 7, 5)}), ORDERS, id="another leader"),
        pytest.param(KNOWN, replace(VIEW, topic_id="another"), ORDERS, id="another log: a plan says why"),
        pytest.param(KNOWN, replace(VIEW, bounds=VIEW.bounds | {0: Bounds(8, 9, 4)}), ORDERS, id="lost: more readings"),
        pytest.param(replace(KNOWN, bound_by=({"topic": "x"},)), VIEW, ORDERS, id="the definition is another"),
        pytest.param(replace(KNOWN, owns={}), MORE, ORDERS, id="no table is recorded as its own"),
        pytest.param(
            replace(KNOWN, owns={Table("", "public.orders"): Owner("orders", ("x",))}),
            MORE,
            ORDERS,
            id="a table is shared",
        ),
        pytest.param(KNOWN, VIEW, replace(ORDERS, archive=Archive("file:///a", within="24h")), id="an archive"),
    ],
)
def test_where_a_plan_must_look_closer_nothing_is_said(known, view, pipeline):
    assert decide_at_a_glance(pipeline, known, view, NO_PACE) is None
