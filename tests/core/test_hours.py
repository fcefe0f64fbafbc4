"""Tests that each offset belongs to one hour.

An hour is complete when, and only when, all of its offsets are committed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.offsets import TopicPartition
from lockstep.core.planning.hours import (
    HOUR,
    HOURS_PER_LOOK,
    Complete,
    Covered,
    HourOffsets,
    Reached,
    Waiting,
    first_hour,
    hours_over,
    judge_hour,
    key_of,
    offsets_of_hour,
)
from lockstep.core.states import CoverageKind

NINE = datetime(2026, 5, 1, 9, tzinfo=UTC)
GRACE = timedelta(minutes=1)
WHERE = TopicPartition("t", 0)


def stream(offset: int | None = None, position: int = 100, **more: Any) -> Reached:
    return Reached(1, WHERE, more.pop("start", 0), position, offset, **more)


def part(begin: int, end: int) -> HourOffsets:
    return HourOffsets(1, WHERE, begin, end)


def judged(begin: int, end: int, *covered: Covered, **more: Any) -> Complete | Waiting:
    return judge_hour("orders", NINE, [stream(**more)], [part(begin, end)], covered)


@st.composite
def coverage(draw) -> list[Covered]:
    """Draws a stream's coverage up to its position, with some uncovered offsets."""
    found, at = [], 0
    for owner in range(1, draw(st.integers(1, 8))):
        begin = at + draw(st.sampled_from([0, 0, 0, 1, 3]))
        at = begin + draw(st.integers(1, 6))
        kind = draw(st.sampled_from(["batch", "batch", "batch", "loss", "skipped"]))
        found.append(Covered(1, begin, at, CoverageKind(kind), owner if kind == CoverageKind.BATCH else None))
    return found


def seen(covered: list[Covered], begin: int, end: int) -> list[Covered]:
    """Returns the ledger's answer for a stretch: the coverage in it, with the coverage right below it."""
    below = [c.from_offset for c in covered if c.from_offset < begin]
    return [c for c in covered if c.from_offset < end and c.from_offset >= max(below, default=0)]


@given(coverage(), st.integers(0, 30), st.integers(0, 20), st.booleans())
def test_an_hour_is_complete_when_and_only_when_a_batch_or_a_loss_has_each_of_its_offsets(covered, begin, span, gone):
    position = max((c.until_offset for c in covered), default=0)
    end = begin + span
    good = {
        o for c in covered for o in range(c.from_offset, c.until_offset) if gone or c.kind != "skipped"
    }  # every offset, the slow way
    missing = sorted(set(range(begin, end)) - good)

    answer = judged(begin, end, *seen(covered, begin, end), position=position, gone=gone)

    if position < end:
        assert isinstance(answer, Waiting)
        assert f"[{position}, {end}) is not committed yet" in answer.reason
    elif missing:
        assert isinstance(answer, Waiting)
        first, last = map(int, re.findall(r"\[(\d+), (\d+)\)", answer.reason)[0])
        assert first == missing[0]
        assert set(range(first, last)) <= set(missing), "what is to be filled is all missing"
        assert answer.next_command == f"lockstep fill orders --from 0:{first} --until 0:{last}"
    else:
        owners = {c.batch_id for c in covered if c.batch_id and max(c.from_offset, begin) < min(c.until_offset, end)}
        assert isinstance(answer, Complete)
        assert answer.batches == tuple(sorted(owners))
        inside = [c for c in covered if c.kind == "loss" and max(c.from_offset, begin) < min(c.until_offset, end)]
        assert set(inside) <= set(answer.losses)


@given(st.lists(st.integers(0, 60), min_size=2, max_size=12), st.integers(0, 20), st.integers(0, 60))
def test_hours_tile_whatever_the_boundaries_are(boundaries, start, end):
    at, found = stream(start=start, position=max(start, end), ends=end > start), []
    for before, after in pairwise(boundaries):
        for each in offsets_of_hour([at], {WHERE: before}, {WHERE: after}):
            found.append((each.from_offset, each.until_offset))
            at = replace(at, offset=each.until_offset)

    assert all(low <= high for low, high in found)
    assert all(before[1] == after[0] for before, after in pairwise(found))
    assert all(start <= low for low, _ in found)
    if at.ends:
        assert all(high <= end for _, high in found)


def test_streams_before_and_behind_a_growth_share_the_hour_and_no_offset():
    older = Reached(1, WHERE, 0, 50, 40, ends=True)
    newer = Reached(2, WHERE, 50, 80, 50)
    assert offsets_of_hour([older, newer], {}, {WHERE: 70}) == (
        HourOffsets(1, WHERE, 40, 50),
        HourOffsets(2, WHERE, 50, 70),
    )
    assert offsets_of_hour([older, newer], {}, {WHERE: 45}) == (
        HourOffsets(1, WHERE, 40, 45),
        HourOffsets(2, WHERE, 50, 50),
    )


def test_what_was_read_of_a_log_that_is_gone_belongs_to_the_next_hour_whatever_was_skipped_in_it():
    gone, today = Reached(1, WHERE, 0, 50, 40, ends=True, gone=True), Reached(2, WHERE, 3, 9, 3)
    offsets = offsets_of_hour([gone, today], {}, {WHERE: 5})
    assert offsets == (HourOffsets(1, WHERE, 40, 50), HourOffsets(2, WHERE, 3, 5))
    covered = [
        Covered(1, 30, 45, CoverageKind.BATCH, 7),
        Covered(1, 45, 50, CoverageKind.SKIPPED),
        Covered(2, 3, 9, CoverageKind.BATCH, 8),
    ]
    answer = judge_hour("orders", NINE, [gone, today], offsets, covered)
    assert isinstance(answer, Complete)
    assert (answer.batches, [loss.kind for loss in answer.losses]) == ((7, 8), ["skipped"])


@pytest.mark.parametrize(
    ("loss", "begin", "end", "named", "why"),
    [
        ((20, 30), 10, 40, True, "it lies inside"),
        ((20, 30), 30, 40, True, "the hour's first records may have been below the log's new start"),
        ((20, 30), 30, 30, True, "nothing is left of the hour, and that may be why"),
        ((20, 30), 10, 20, False, "the hour had ended before"),
        ((20, 30), 31, 40, False, "records that are there lie between"),
    ],
)
def test_a_loss_is_named_by_every_hour_that_may_have_had_records_in_it(loss, begin, end, named, why):
    covered = [
        Covered(1, 0, 20, CoverageKind.BATCH, 1),
        Covered(1, loss[0], loss[1], CoverageKind.LOSS),
        Covered(1, 30, 50, CoverageKind.BATCH, 2),
    ]
    answer = judged(begin, end, *seen(covered, begin, end))
    assert isinstance(answer, Complete)
    assert bool(answer.losses) is named, why


def test_a_loss_that_was_accepted_before_the_hour_began_is_not_of_it():
    def losses(accepted_at: datetime) -> int:
        return len(judged(30, 30, Covered(1, 20, 30, CoverageKind.LOSS, None, accepted_at)).losses)

    assert losses(NINE - timedelta(minutes=30)) == 1
    assert losses(NINE - HOUR) == 0


def test_a_loss_completes_an_hour_and_a_skip_does_not():
    assert isinstance(judged(0, 10, Covered(1, 0, 10, CoverageKind.LOSS)), Complete)
    assert isinstance(judged(0, 10, Covered(1, 0, 10, CoverageKind.SKIPPED)), Waiting)


def test_nothing_in_an_hour_completes_it_only_when_all_before_it_is_committed():
    assert isinstance(judged(30, 30, position=30), Complete)
    behind = judged(30, 30, position=29)
    assert isinstance(behind, Waiting)
    assert "[29, 30) is not committed yet" in behind.reason


@pytest.mark.parametrize(
    ("minutes", "over", "why"),
    [
        (60, 0, "clocks may still stamp earlier times"),
        (61, 1, "the hour is over everywhere"),
        (150, 2, "two are"),
        (60 * 24 * 30, HOURS_PER_LOOK, "one look has its measure"),
    ],
)
def test_an_hour_is_over_a_grace_behind_its_end(minutes, over, why):
    found = hours_over(NINE, NINE + timedelta(minutes=minutes), GRACE)
    assert found == tuple(NINE + HOUR * n for n in range(1, over + 1)), why


def test_hours_begin_whole_and_not_long_ago():
    assert first_hour(NINE + timedelta(minutes=1), NINE + HOUR) == NINE + HOUR
    assert first_hour(NINE, NINE + HOUR) == NINE
    assert first_hour(NINE - timedelta(days=400), NINE) == NINE - timedelta(days=7)


def test_an_hours_key_is_its_beginning_in_utc():
    assert key_of(datetime(2026, 5, 2, 2, tzinfo=timezone(timedelta(hours=2)))) == "2026-05-01T23:00:00"
