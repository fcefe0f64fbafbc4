"""Tests that a folded topic is each key's newest value, and that other rows than the table's are told apart."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lockstep.dev.records.folding import FoldedTopic, fold_topic, same_rows

ROW = {"window_start": "2026-05-01T12:00:00+00:00", "shop": "North", "revenue": Decimal("12.50"), "sales": 3}
SENT = {"window_start": "2026-05-01T12:00:00Z", "shop": "North", "revenue": Decimal("12.5"), "sales": 3}


def test_each_keys_newest_value_is_left_and_a_tombstone_leaves_none():
    folded = FoldedTopic()
    for key, value in [(b"a", b'{"n": 1}'), (b"b", b'{"n": 2}'), (b"a", b'{"n": 3.10}'), (b"b", None)]:
        folded.take(key, value)
    assert (folded.records, folded.rows) == (4, {b"a": {"n": Decimal("3.10")}})


def test_rows_are_the_same_whoever_wrote_their_numbers_and_moments():
    ours = {"_stream": 1, "_offset": 2, "_ordinal": 0, "_batch": 3}
    assert same_rows([SENT], [ROW | ours])
    assert same_rows([SENT], [ROW | ours | {"revenue": "12.50"}])  # of a numeric without a length
    assert same_rows([], [])


@pytest.mark.parametrize(
    "other",
    [
        {"revenue": Decimal("12.51")},
        {"revenue": "12.51"},
        {"sales": 4},
        {"shop": "South"},
        {"window_start": "2026-05-01T13:00:00Z"},
        {"revenue": None},
        {"more": 1},
    ],
)
def test_another_value_makes_other_rows(other):
    assert not same_rows([SENT | other], [ROW])


def test_a_row_that_is_missing_doubled_or_put_in_makes_other_rows():
    assert not same_rows([], [ROW])
    assert not same_rows([SENT], [])
    assert not same_rows([SENT], [ROW, ROW])


def test_a_topic_is_read_from_its_beginning_and_nothing_of_an_aborted_transaction(kafka, topic, produce):
    name = topic(partitions=3)
    produce(name, [("a", '{"n": 1}'), ("b", '{"n": 1}')], end="commit")
    produce(name, [("a", '{"n": 9}'), ("c", '{"n": 9}')], end="abort")
    produce(name, [("b", '{"n": 2}')], end="commit")
    folded = fold_topic(kafka, name)
    assert (folded.records, folded.rows) == (3, {b"a": {"n": 1}, b"b": {"n": 2}})
