"""Tests that gaps in the log are reported once per offset, and claim no more than the evidence allows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.proof.gaps import Kind, SeenOffsets, Stretch, join_stretches, tell_apart

OFFSETS = st.frozensets(st.integers(0, 60))


@st.composite
def logs(draw):
    """Draws a range and the offsets seen in it. A reader of uncommitted records sees the committed ones, too."""
    begin = draw(st.integers(0, 50))
    committed = draw(OFFSETS)
    seen = SeenOffsets(
        draw(st.integers(0, 60)), committed, committed | draw(OFFSETS), draw(OFFSETS), draw(st.booleans())
    )
    return begin, begin + draw(st.integers(1, 30)), seen


@given(logs())
def test_stretches_tile_the_range_and_neighbours_differ(log):
    begin, end, seen = log
    found = tell_apart(begin, end, seen)
    assert [found[0].from_offset, *(s.until_offset for s in found)] == [*(s.from_offset for s in found), end]
    assert found[0].from_offset == begin
    assert all(left.kind is not right.kind for left, right in pairwise(found))
    assert sum(s.count for s in found) == end - begin


@given(logs())
def test_each_offset_is_told_by_the_evidence(log):
    begin, end, seen = log
    told = {o: s.kind for s in tell_apart(begin, end, seen) for o in range(s.from_offset, s.until_offset)}
    for offset, kind in told.items():
        assert (kind is Kind.TRIMMED) == (offset < seen.log_start)
        if kind is Kind.TRIMMED:
            continue
        assert (kind is Kind.RECORD) == (offset in seen.committed)
        assert (kind is Kind.ABORTED) == (offset in seen.uncommitted and offset not in seen.committed)
        if kind is Kind.MARKER:
            assert not seen.compacts
        if kind is Kind.COMPACTED:
            assert offset in seen.once


@given(logs(), st.integers(1, 30))
def test_read_in_two_pieces_it_is_the_same(log, share):
    begin, end, seen = log
    middle = min(begin + share, end)
    pieces = tell_apart(begin, middle, seen) + (tell_apart(middle, end, seen) if middle < end else [])
    assert join_stretches(pieces) == tell_apart(begin, end, seen)


@pytest.mark.parametrize(("begin", "end"), [(3, 3), (4, 3), (-1, 2)])
def test_a_stretch_has_offsets(begin, end):
    with pytest.raises(ValueError, match="no stretch"):
        Stretch(begin, end, Kind.MARKER)


def test_an_archive_tells_records_below_log_start_and_nothing_of_the_rest():
    seen = SeenOffsets(6, {1, 4, 6}, {6, 7}, {3}, archived=((1, 5),))
    assert [seen.kind(offset) for offset in range(9)] == [
        Kind.TRIMMED,
        Kind.RECORD,
        Kind.INVISIBLE,
        Kind.COMPACTED,
        Kind.RECORD,
        Kind.TRIMMED,
        Kind.RECORD,
        Kind.ABORTED,
        Kind.MARKER,
    ]
