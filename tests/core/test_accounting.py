from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.planning.tasks import A_COMMIT, tasks_for
from lockstep.core.proof.accounting import Digest, ManifestLine, counted_once, too_many_rejects

OFFSETS = st.sets(st.integers(0, 2**60), max_size=30)


@given(OFFSETS, OFFSETS)
def test_digests_of_parts_add_up_to_the_digest_of_the_whole(some, others):
    others = others - some
    assert Digest.of(some, 0) + Digest.of(others, 0) == Digest.of(some | others, 0)


@given(st.sets(st.integers(0, 2**55), min_size=1), st.integers(1, 1_000))
def test_a_digest_tells_a_moved_offset(offsets, step):
    moved = {max(offsets) + step, *(offsets - {max(offsets)})}
    assert Digest.of(moved, 0) != Digest.of(offsets, 0)


def test_a_few_rejects_are_always_taken_and_a_flood_is_not():
    assert not too_many_rejects(100, 100, 0.05)
    assert not too_many_rejects(500, 10_000, 0.05)
    assert too_many_rejects(501, 10_000, 0.05)


@given(st.lists(st.integers(1, 10**7), min_size=1), st.integers(1, 64))
def test_tasks_are_never_more_than_ranges_or_cores_and_never_none(spans, cores):
    assert 1 <= tasks_for(spans, lambda: cores) <= min(len(spans), cores)


def test_few_records_over_many_partitions_are_one_task_and_nobody_counts_the_slots_for_it():
    asked = []
    assert tasks_for([2] * 512, lambda: asked.append("slots") or 4) == 1
    assert asked == []
    assert tasks_for([1_000_000], lambda: 4) == 1
    assert [tasks_for([n], lambda: 4, may_cut=True) for n in (1, 10_000, 10_001, 10**6)] == [1, 1, 2, 4]
    assert tasks_for([1_000_000] * 8, lambda: 4) == 4


def test_many_ranges_that_are_committed_each_by_itself_are_worth_more_tasks_than_their_records():
    assert tasks_for([2 + A_COMMIT] * 512, lambda: 4) == 4
    assert tasks_for([2 + A_COMMIT] * 4, lambda: 4) == 1


def test_a_record_with_rows_of_several_tasks_is_written_once():
    def line(task: int, stream: int, written: int) -> ManifestLine:
        return ManifestLine(task, stream, 10, written, 0, 10, 100, Digest(10, 1, 1), 0, 9, None, None)

    counted = counted_once([line(1, 1, 2), line(2, 1, 0), line(2, 2, 0)], {1: 5, 2: 7})
    assert [(each.task, each.stream_id, each.written) for each in counted] == [(1, 1, 7), (2, 1, 0), (2, 2, 7)]
