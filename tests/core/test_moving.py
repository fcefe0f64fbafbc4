"""Tests the search for the place in a copy: one match and nothing before it, or a refusal that says why."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lockstep.core.changes.moving import (
    LEAST_MATCHED,
    CopyLacksRecords,
    Move,
    MovedStream,
    Search,
    Trail,
    fingerprint,
    first_missing,
    proved_place,
)
from lockstep.core.errors import Refusal
from lockstep.core.offsets import Bounds, Stream, TopicPartition, TopicView

AGAIN = "lockstep move orders --to-topic copy"
LETTERS = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=40)
# A log: its records' contents, each with the gap before it. Markers and compacted records take offsets.
GAPS = st.integers(0, 1_000).map(lambda seed: Random(seed).choices(range(4), k=1_000))  # noqa: S311 - gaps are no secret


def placed(contents, gaps, begin=0):
    """Returns offsets and contents of a log with these gaps."""
    at, found = begin - 1, []
    for content, gap in zip(contents, gaps, strict=False):
        at += 1 + gap
        found.append((at, content))
    return found


def place(trail, copy, *, log_start=0, compacts=False, from_start=True):
    end = copy[-1][0] + 1 if copy else log_start
    search = Search(trail, from_start).through(copy)
    return proved_place(search, "orders-0 [1, 2)", "copy-0", Bounds(log_start, end), AGAIN, compacts=compacts)


def trail_of(log, most=200):
    return Trail(tuple(content for _, content in log[-most:]), is_whole=len(log) <= most)


def numbered(n, first=0):
    return [b"%d" % i for i in range(first, first + n)]


@given(st.integers(0, 300), st.integers(0, 60), GAPS, GAPS)
def test_a_copy_with_other_gaps_goes_on_directly_behind_what_was_read(read, behind, gaps, other_gaps):
    old, copy = (placed(numbered(read + behind), each) for each in (gaps, other_gaps))
    match = place(trail_of(old[:read]), copy)
    assert match.matched == min(read, 200)
    assert [content for offset, content in copy if offset >= match.offset] == numbered(behind, read)
    assert first_missing(old[read:], [each for each in copy if each[0] >= match.offset]) == (None, behind)


@given(LETTERS, LETTERS, GAPS)
def test_contents_that_repeat_never_lead_to_another_place(before, behind, gaps):
    """The only place that is taken is the true one. Any doubt is a refusal."""
    copy = placed(before + behind, gaps)
    try:
        match = place(trail_of(placed(before, gaps)), copy)
    except Refusal:
        return
    assert [content for offset, content in copy if offset >= match.offset] == behind


@given(st.integers(LEAST_MATCHED, 250), st.integers(1, 300), GAPS)
def test_two_copies_of_what_was_read_are_refused_and_both_are_named(read, between, gaps):
    once = numbered(read)
    copy = placed([*once, *numbered(between, 1_000), *once], gaps)
    first, second = copy[read - 1][0] + 1, copy[-1][0] + 1
    with pytest.raises(
        Refusal, match=rf"stand 2 times in copy-0, before {first}, {second}: nothing says which"
    ) as refused:
        place(trail_of(placed(once, gaps)), copy)
    assert not isinstance(refused.value, CopyLacksRecords), "no waiting helps"


@given(st.integers(1, 300), st.data())
def test_a_copy_that_lacks_the_last_record_is_refused_as_behind(read, data):
    ends = data.draw(st.integers(0, read - 1))
    with pytest.raises(CopyLacksRecords, match=r"orders-0 \[1, 2\) are not in copy-0 \[0, ") as refused:
        place(trail_of(placed(numbered(read), [0] * read)), placed(numbered(ends), [1] * ends))
    assert refused.value.next_command == f"wait for the copy, or copy with timestamps and headers, then {AGAIN}"


@given(st.integers(LEAST_MATCHED + 1, 300), st.data())
def test_a_record_that_a_producer_wrote_between_them_is_not_passed_over(read, data):
    kept = min(read, 200)
    at = read - data.draw(st.integers(LEAST_MATCHED, kept - 1)) if kept > LEAST_MATCHED else 1
    assume(0 < at < read)
    copy = placed([*numbered(at), b"new", *numbered(read - at, at)], [0] * 400)
    trail = trail_of(placed(numbered(read), [0] * read))
    with pytest.raises(Refusal, match=r"another record is before them|holds other records before") as refused:
        place(trail, copy)
    assert not isinstance(refused.value, CopyLacksRecords)


def test_a_compacted_topic_may_lack_what_lies_farther_back():
    old = Trail(tuple(numbered(100)), is_whole=False)
    copy = placed([*numbered(70, 0), *numbered(29, 71)], [0] * 100)
    assert place(old, copy, compacts=True).matched == 29
    with pytest.raises(Refusal, match=r"only the last 29 of these 100 records stand in a row before 99 of copy-0"):
        place(old, copy)
    with pytest.raises(CopyLacksRecords, match="at most 19 of these 100 records stand there in a row"):
        place(old, placed(numbered(19, 81), [0] * 100), compacts=True)


def test_a_copy_that_retention_has_cut_is_proved_by_what_is_left_of_it():
    old = Trail(tuple(numbered(200)), is_whole=False)
    copy = placed(numbered(50, 150), [0] * 50, begin=500)
    assert place(old, copy, log_start=500).offset == 550
    with pytest.raises(Refusal, match="another record is before them"):
        place(old, copy, log_start=400, from_start=False)


def test_few_records_prove_a_place_only_where_they_are_all_that_was_written():
    few = Trail(tuple(numbered(3)), is_whole=True)
    assert place(few, placed(numbered(5), [0] * 5)).offset == 3
    with pytest.raises(Refusal, match="hold 3 records, and copy-0 begins at 6: that proves no place"):
        place(few, placed(numbered(3), [0] * 3, begin=6), log_start=6)
    with pytest.raises(Refusal, match="are all that was written, and copy-0 holds other records before 4"):
        place(few, placed([b"new", *numbered(5)], [0] * 6))
    assert (few.is_proof, Trail(few.prints, is_whole=False).is_proof) == (True, False)


def test_where_nothing_was_read_the_copy_must_begin_at_its_first_offset():
    nothing = Trail((), is_whole=True)
    assert place(nothing, placed(numbered(5), [0] * 5)).offset == 0
    with pytest.raises(Refusal, match=r"hold no record, and copy-0 begins at 7: its first records are missing"):
        place(nothing, placed(numbered(5), [0] * 5, begin=7), log_start=7)


def test_records_of_producers_may_stand_between_those_of_the_copy_that_follow():
    there = placed([b"new", *numbered(2), b"new", *numbered(2, 2)], [0] * 6)
    assert first_missing(placed(numbered(4), [0] * 4), there) == (None, 4)
    assert first_missing([(7, b"0"), (8, b"5"), (9, b"1")], there) == (8, 1)
    assert first_missing([(7, b"1"), (8, b"0")], there) == (8, 1), "in another order"


RECORD = st.tuples(
    st.none() | st.binary(max_size=3),
    st.none() | st.binary(max_size=3),
    st.none() | st.integers(0, 12),
    st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2),
)


@given(RECORD, RECORD)
def test_two_records_look_alike_only_if_key_value_time_and_headers_are_the_same(one, other):
    assert (fingerprint(*one) == fingerprint(*other)) == (one == other)
    key, value, stamp, _ = one
    assert fingerprint(key, value, stamp, None) == fingerprint(key, value, stamp, [])


def test_the_digest_is_of_both_logs_and_every_offset_and_of_nothing_that_grows():
    where = TopicPartition("orders", 0)
    stream = Stream(1, where, "c", "id", 0, 0, 0, 10)
    there = TopicView("d", "copy", "other id", {0: Bounds(0, 50)})
    one = Move("orders", there, (MovedStream(stream, 7, 20, 3),), "--to-topic copy")
    assert one.next_command() == f"lockstep move orders --to-topic copy --apply {one.digest} --reason ..."
    same = replace(one, moved=(MovedStream(stream, 7, 21, 99),), view=replace(there, bounds={0: Bounds(1, 60)}))
    assert same.digest == one.digest
    others = [
        replace(one, pipeline="other"),
        replace(one, view=replace(there, cluster_id="e")),
        replace(one, view=replace(there, topic="b")),
        replace(one, view=replace(there, topic_id="i")),
        *(
            replace(one, moved=(MovedStream(replace(stream, **each), 7, 20, 3),))
            for each in ({"stream_id": 2}, {"position": 11}, {"cluster_id": "d"}, {"topic_id": "x"})
        ),
        replace(one, moved=(MovedStream(stream, 8, 20, 3),)),
    ]
    assert len({one.digest, *(each.digest for each in others)}) == 1 + len(others)
