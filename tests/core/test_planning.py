"""Tests planning: the law as properties, the decisions as a table of cases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.offsets import Bounds, OffsetRange, Stream, StreamRange, TopicPartition, TopicView
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline, Upsert
from lockstep.core.pipeline.guarantees import AtLeastOnce, PerPartition
from lockstep.core.pipeline.stores import Postgres
from lockstep.core.planning.decisions import (
    Blocked,
    Busy,
    Call,
    Caller,
    Done,
    Idle,
    Pace,
    Resume,
    Situation,
    Start,
    Unfinished,
)
from lockstep.core.planning.live import budget, decide, fair_shares, live_ranges
from lockstep.core.states import BatchState

PIPELINE = Pipeline("orders", "t", Json("id string"), Append("public.orders"))
ELSEWHERE = replace(PIPELINE, guarantee=AtLeastOnce(), store=Postgres("WAREHOUSE"))
ME = Caller("host/1/1")
LATER = datetime(2026, 1, 1, tzinfo=UTC)


def stream(partition: int, position: int = 0, **changes: Any) -> Stream:
    known = Stream(partition + 1, TopicPartition("t", partition), "cluster", "id", 0, 0, 0, position)
    return replace(known, **changes)


def view(*bounds: tuple[int, int], **changes: Any) -> TopicView:
    return replace(TopicView("cluster", "t", "id", {p: Bounds(*b) for p, b in enumerate(bounds)}), **changes)


def unfinished(**changes: Any) -> Unfinished:
    ranges = (StreamRange(1, OffsetRange(TopicPartition("t", 0), 0, 5)),)
    return replace(Unfinished(7, "other/1/1", False, LATER, False, ranges, (("cluster", "t", "id"),)), **changes)  # noqa: FBT003


LOGS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=1, max_size=6)
LIMITS = st.builds(
    Limits,
    records=st.integers(1, 90),
    per_partition=st.none() | st.integers(1, 30),
    seconds=st.none() | st.floats(0.1, 5),
    bytes=st.none() | st.integers(1, 10_000),
)
PACES = st.builds(Pace, st.none() | st.floats(0.5, 500), st.none() | st.floats(0.5, 500))


@given(LOGS, LIMITS, PACES)
def test_planning_again_and_again_tiles_the_log_without_a_gap_or_an_overlap(log, limits, pace):
    ends = view(*[(start, start + span) for start, span in log])
    streams = tuple(stream(p, start) for p, (start, _) in enumerate(log))
    tiles: dict[int, list[tuple[int, int]]] = {p: [] for p in range(len(log))}

    while ranges := live_ranges(limits, Situation(ends, streams, pace=pace)):
        assert sum(r.offsets.span for r in ranges) <= budget(limits, pace)
        for item in ranges:
            assert item.offsets.span <= (limits.per_partition or item.offsets.span)
            tiles[item.offsets.topic_partition.partition].append((item.offsets.from_offset, item.offsets.until_offset))
        moved = {r.stream_id: r.offsets.until_offset for r in ranges}
        streams = tuple(replace(s, position=moved.get(s.stream_id, s.position)) for s in streams)

    for partition, (start, span) in enumerate(log):
        at = start
        for low, high in tiles[partition]:
            assert low == at < high
            at = high
        assert at == start + span


@given(st.dictionaries(st.integers(0, 20), st.integers(0, 500), min_size=1), st.integers(1, 3_000))
def test_shares_are_whole_and_nobody_could_have_more_without_another_having_less(available, total):
    shares = fair_shares(available, total)
    assert sum(shares.values()) == min(total, sum(available.values()))
    assert all(0 <= shares[k] <= available[k] for k in available)
    short = [shares[k] for k in available if shares[k] < available[k]]
    assert not short or max(shares.values()) - min(short) <= 1


@given(st.dictionaries(st.integers(0, 20), st.integers(0, 500), min_size=1), st.integers(1, 3_000))
def test_shares_are_the_same_whenever_they_are_asked_for(available, total):
    assert fair_shares(available, total) == fair_shares(dict(available), total)


@pytest.mark.parametrize(
    ("limits", "pace", "expected"),
    [
        pytest.param(Limits(records=1000), Pace(), 1000, id="records alone"),
        pytest.param(Limits(records=1000, seconds=2), Pace(100, None), 200, id="backpressure after an outage"),
        pytest.param(Limits(records=1000, bytes=5000), Pace(None, 50), 100, id="bytes at the size so far"),
        pytest.param(Limits(records=1000, seconds=2, bytes=5000), Pace(), 1000, id="nothing known yet"),
        pytest.param(Limits(records=1000, seconds=0.001), Pace(1, None), 1, id="at least one"),
    ],
)
def test_the_tightest_limit_counts(limits, pace, expected):
    assert budget(limits, pace) == expected


AT_5 = (stream(0, 5),)
CASES = [
    ("new records", Situation(view((0, 9)), AT_5), Start),
    ("nothing new", Situation(view((0, 5)), AT_5), Idle),
    ("paused", Situation(view((0, 9)), AT_5, pause="paused by me: dinner"), Idle),
    ("paused, but one is unfinished", Situation(view((0, 9)), AT_5, unfinished(), pause="paused"), Resume),
    ("its key is committed", Situation(view((0, 9)), AT_5, call=Call(3, BatchState.COMMITTED)), Done),
    (
        "its key's batch is unfinished",
        Situation(view((0, 9)), AT_5, unfinished(), call=Call(7, BatchState.PLANNED)),
        Resume,
    ),
    ("held by somebody alive", Situation(view((0, 9)), AT_5, unfinished(lease_is_live=True)), Busy),
    ("held by myself", Situation(view((0, 9)), AT_5, unfinished(lease_is_live=True, owner=ME.owner)), Resume),
    ("its lease is over", Situation(view((0, 9)), AT_5, unfinished()), Resume),
    ("retention has passed the position", Situation(view((6, 9)), AT_5), Blocked),
    ("retention has passed an unfinished batch", Situation(view((1, 9)), AT_5, unfinished()), Blocked),
    ("the log was truncated", Situation(view((0, 4)), AT_5), Blocked),
    ("an unfinished batch was truncated", Situation(view((0, 4)), AT_5, unfinished()), Blocked),
    ("the topic was recreated", Situation(view((0, 9), topic_id="new"), AT_5), Blocked),
    ("another cluster answers", Situation(view((0, 9), cluster_id="new"), AT_5), Blocked),
    ("recreated under an unfinished batch", Situation(view((0, 9), topic_id="new"), AT_5, unfinished()), Blocked),
    ("a partition is gone", Situation(view((0, 9)), (*AT_5, stream(1))), Blocked),
    ("failed three times by data", Situation(view((0, 9)), AT_5, unfinished(), failures=(3, "bad")), Blocked),
    ("failed twice by data", Situation(view((0, 9)), AT_5, unfinished(), failures=(2, "bad")), Resume),
]


@pytest.mark.parametrize(("situation", "answer"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_decisions(situation, answer):
    assert isinstance(decide(PIPELINE, situation, ME), answer)


def test_a_batch_that_failed_too_often_names_one_next_command():
    error = "t: batch 7 is refused: 9 of 9 records  Next: lockstep batch 7"
    blocked = decide(PIPELINE, Situation(view((0, 9)), AT_5, unfinished(), failures=(3, error)), ME)
    assert isinstance(blocked, Blocked)
    assert blocked.reason.endswith("by data or code: t: batch 7 is refused: 9 of 9 records")
    assert blocked.next_command == f"mend it, then: lockstep run {PIPELINE.name} --retry"


def test_a_batch_ends_where_the_log_does():
    (item,) = live_ranges(PIPELINE.limits, Situation(view((0, 9)), AT_5))
    assert (item.offsets.from_offset, item.offsets.until_offset) == (5, 9)


def test_take_over_and_retry_are_explicit():
    held = Situation(view((0, 9)), AT_5, unfinished(lease_is_live=True))
    failed = Situation(view((0, 9)), AT_5, unfinished(), failures=(3, "bad"))
    assert decide(PIPELINE, held, replace(ME, take_over=True)) == Resume(7)
    assert decide(PIPELINE, failed, replace(ME, retry=True)) == Resume(7)


@pytest.mark.parametrize(("was", "is_now", "told"), [(0, 1, True), (1, 1, False), (None, 1, False), (0, None, False)])
def test_a_loss_under_another_leader_says_that_more_may_be_gone(was, is_now, told):
    seen = view((6, 9))
    seen = replace(seen, bounds={0: replace(seen.bounds[0], leader_epoch=is_now)})
    lost = decide(PIPELINE, Situation(seen, tuple(replace(stream, leader_epoch=was) for stream in AT_5)), ME)
    assert lost.next_command == "lockstep accept-loss orders --partition 0 --from 5 --until 6 --reason ..."
    assert ("others were replaced unread" in lost.reason) is told


def test_a_blocked_says_partition_offsets_and_the_command_that_goes_on():
    lost = decide(PIPELINE, Situation(view((6, 9)), AT_5), ME)
    assert "t-0" in lost.reason
    assert "[5, 6)" in lost.reason
    assert lost.next_command == "lockstep accept-loss orders --partition 0 --from 5 --until 6 --reason ..."
    assert lost.readings == 2
    assert decide(PIPELINE, Situation(view((0, 4)), AT_5), ME).readings == 3


SAID = [
    ("the log was truncated", Situation(view((0, 4)), AT_5), ("t-0", "ends at 4", "below 5"), "--partition 0"),
    (
        "it was truncated under a batch",
        Situation(view((0, 4)), AT_5, unfinished()),
        ("t-0 [", "ends at 4"),
        "--partition 0",
    ),
    (
        "the topic was recreated",
        Situation(view((0, 9), topic_id="new"), AT_5),
        ("t-0", "position 5", "topic", "new"),
        "",
    ),
    (
        "recreated under a batch",
        Situation(view((0, 9), topic_id="new"), AT_5, unfinished()),
        ("t-0 [", "topic id is now new"),
        "",
    ),
    ("another cluster", Situation(view((0, 9), cluster_id="new"), AT_5), ("t-0", "position 5", "cluster", "new"), ""),
    (
        "another cluster under a batch",
        Situation(view((0, 9), cluster_id="new"), AT_5, unfinished()),
        ("t-0 [", "cluster id is now new"),
        "",
    ),
    ("a partition is gone", Situation(view((0, 9)), (*AT_5, stream(1, 8))), ("t-1", "position is 8"), "--partition 1"),
]


@pytest.mark.parametrize(("situation", "words", "options"), [case[1:] for case in SAID], ids=[case[0] for case in SAID])
def test_a_log_that_is_not_the_same_is_named_with_its_offsets_and_retire(situation, words, options):
    said = decide(PIPELINE, situation, ME)
    for word in words:
        assert word in said.reason
    back = (
        "let LOCKSTEP_KAFKA lead to cluster cluster, or if that is gone, "
        if "the cluster is not the same" in said.reason
        else ""
    )
    assert said.next_command.startswith(f"{back}lockstep retire orders")
    assert options in said.next_command


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (PIPELINE, replace(PIPELINE, target=Append("public.other"))),
        (PIPELINE, replace(PIPELINE, target=Upsert("public.orders", key=("id",)))),
        (PIPELINE, replace(PIPELINE, topic="u")),
        (PIPELINE, replace(PIPELINE, guarantee=PerPartition())),
        (ELSEWHERE, replace(ELSEWHERE, store=Postgres("OTHER"))),
    ],
    ids=["another table", "another kind", "another topic", "another guarantee", "another store"],
)
def test_a_pipeline_keeps_its_topic_and_target_for_good(was, now):
    before = Situation(view((0, 9)), AT_5, bound_by=(was.document(),))
    assert isinstance(decide(now, before, ME), Blocked)
    assert "abandon 7" in decide(now, replace(before, unfinished=unfinished()), ME).next_command


@pytest.mark.parametrize(
    ("now", "said", "next_command"),
    [
        (
            replace(PIPELINE, target=Upsert("public.elsewhere", key=("id",))),
            (
                "its target was Append(table=public.orders) and is now Upsert(key=(id), table=public.elsewhere); "
                "a pipeline keeps its target for good"
            ),
            f"put it back, or lockstep clone {PIPELINE.name} --to ANOTHER_NAME",
        ),
        (
            replace(PIPELINE, topic="another.v1"),
            f"its topic was {PIPELINE.topic} and is now another.v1; a pipeline keeps its topic for good",
            (
                "put it back, or lockstep move orders --to-topic another.v1 if that is a copy, or "
                "lockstep new ANOTHER_NAME --topic TOPIC"
            ),
        ),
        (
            replace(PIPELINE, guarantee=PerPartition()),
            "its guarantee was PerBatch() and is now PerPartition(); a pipeline keeps its guarantee for good",
            f"put it back, or lockstep clone {PIPELINE.name} --to ANOTHER_NAME",
        ),
    ],
    ids=["target", "topic", "guarantee"],
)
def test_what_a_pipeline_keeps_is_told_in_the_words_of_a_definition(now, said, next_command):
    blocked = decide(now, Situation(view((0, 9)), AT_5, bound_by=(PIPELINE.document(),)), ME)
    assert isinstance(blocked, Blocked)
    assert blocked.reason == f"{PIPELINE.name}: {said}"
    assert blocked.next_command == next_command


def test_tuning_and_schema_may_change():
    now = replace(PIPELINE, limits=Limits(records=3), format=Json("id string, n int"))
    assert isinstance(decide(now, Situation(view((0, 9)), AT_5, bound_by=(PIPELINE.document(),)), ME), Start)


def archived(start: int, *stretches: tuple[int, int]) -> TopicView:
    return view((start, 60)).with_archived({TopicPartition(PIPELINE.only_topic, 0): stretches})


@pytest.mark.parametrize(
    ("position", "seen", "planned"),
    [
        (10, archived(40, (0, 40)), (10, 60)),
        (10, archived(40, (0, 30)), (10, 30)),  # what nothing holds ends the range
        (35, archived(40, (0, 30), (35, 40)), (35, 60)),
        (30, archived(40, (0, 30), (35, 40)), (30, 35)),
        (5, archived(40, (10, 40)), (5, 10)),
    ],
)
def test_offsets_below_log_start_are_planned_as_far_as_files_hold_them_and_else_lost(position, seen, planned):
    decision = decide(PIPELINE, Situation(seen, (stream(0, position),)), ME)
    if planned[0] in {30, 5}:
        assert isinstance(decision, Blocked)
        assert f"offsets [{planned[0]}, {planned[1]}) were deleted before they were committed" in decision.reason
        assert "and the archive goes on at" in decision.reason
        assert decision.next_command.endswith(f"--from {planned[0]} --until {planned[1]} --reason ...")
    else:
        assert isinstance(decision, Start)
        assert [(r.offsets.from_offset, r.offsets.until_offset) for r in decision.ranges] == [planned]


def test_an_unfinished_batch_that_is_archived_in_part_is_abandoned_by_a_person():
    held = (StreamRange(1, OffsetRange(TopicPartition("t", 0), 0, 20)),)
    at = Situation(archived(40, (0, 12)), (stream(0),), unfinished(ranges=held))
    decision = decide(PIPELINE, at, ME)
    assert isinstance(decision, Blocked)
    assert "t-0 [0, 20): offsets [12, 40) of batch 7 were deleted and are not archived" in decision.reason
    assert decision.next_command == "lockstep abandon 7 --reason ..."
    whole = replace(at, view=archived(40, (0, 20)))
    assert isinstance(decide(PIPELINE, whole, ME), Resume)
