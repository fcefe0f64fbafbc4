"""A task's sums are exact: they are the proof of which offsets it was given."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lockstep.staging.tally import _sums


@given(
    st.lists(st.integers(0, 2**40), min_size=1, max_size=50, unique=True),
    st.integers(0, 2**50),
)
def test_a_tally_is_exact_however_far_a_record_lies_from_its_ranges_beginning(distances, begin):
    offsets = np.array([begin + distance for distance in distances], dtype=np.int64)
    total, squares = _sums(offsets - begin)
    assert (total, squares) == (sum(distances), sum(distance * distance for distance in distances))


def test_many_records_far_from_the_beginning_do_not_wrap_around():
    distances = np.full(50_000, 2**24 - 1, dtype=np.int64)
    assert _sums(distances)[1] == 50_000 * (2**24 - 1) ** 2 > 2**63
