"""Tests which files of a lake table are looked into, because bounds alone do not tell their rows apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.lake.files import LakeFile, sharing_offsets

BOUNDS = st.tuples(st.integers(0, 20), st.integers(0, 5)).map(lambda drawn: (drawn[0], sum(drawn)))
FILES = st.lists(st.dictionaries(st.sampled_from(["1", "2", "10"]), BOUNDS, min_size=1), max_size=6)


def file(number: int, bounds: dict[str, tuple[int, int]]) -> LakeFile:
    return LakeFile(f"{number}", 1, 1, {stream: (1, 0, 0, *its) for stream, its in bounds.items()})


@given(FILES)
def test_files_that_share_an_offset_of_a_stream_are_found_and_no_others(drawn):
    files = [file(number, bounds) for number, bounds in enumerate(drawn)]
    wanted = [
        one
        for one, its in zip(files, drawn, strict=True)
        if any(
            stream in others and first <= others[stream][1] and others[stream][0] <= last
            for other, others in zip(files, drawn, strict=True)
            if other is not one
            for stream, (first, last) in its.items()
        )
    ]
    assert sharing_offsets(files) == wanted


def test_a_record_whose_rows_are_in_two_files_makes_both_looked_into():
    ends, begins, apart = file(0, {"1": (0, 9)}), file(1, {"1": (9, 12)}), file(2, {"1": (13, 20), "2": (0, 9)})
    assert sharing_offsets([apart, begins, ends]) == [begins, ends]
