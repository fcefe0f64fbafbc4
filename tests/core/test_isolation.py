"""Tests that halving ranges finds the one record that kills its reader, and blames none for the machine's faults."""

from __future__ import annotations

import random

import pytest

from lockstep.core.isolation import (
    HEADERS_UNREADABLE,
    READER_BUSY_TWICE,
    READER_ENDED_TWICE,
    fatal_record,
    halves,
    hidden_reason,
    hidden_size,
    trial_seconds,
)
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition


def of(stream: int, begin: int, end: int) -> StreamRange:
    return StreamRange(stream, OffsetRange(TopicPartition("t", stream), begin, end))


RANGES = (of(0, 5, 9), of(1, 0, 1000), of(2, 70, 71))


def offsets(ranges) -> list[tuple[int, int]]:
    return [(item.stream_id, o) for item in ranges for o in range(item.offsets.from_offset, item.offsets.until_offset)]


def dying_on(*fatal: tuple[int, int]):
    """Returns a reader that dies whenever it reads one of these records."""
    tries = []

    def dies(ranges, hidden) -> bool:
        tries.append((ranges, hidden))
        return bool((set(offsets(ranges)) - set(offsets(hidden))) & set(fatal))

    return dies, tries


@pytest.mark.parametrize("seed", range(20))
def test_halves_are_the_whole_in_its_order(seed):
    chance = random.Random(seed)  # noqa: S311 - spread, not secrecy
    ranges = tuple(of(n, begin := chance.randrange(9), begin + chance.randrange(1, 30)) for n in range(5))
    first, second = halves(ranges)
    assert offsets(first) + offsets(second) == offsets(ranges)
    assert abs(len(offsets(first)) - len(offsets(second))) <= 1


@pytest.mark.parametrize("fatal", [(0, 5), (0, 8), (1, 0), (1, 731), (1, 999), (2, 70)])
def test_the_one_record_is_found_within_a_logarithm_of_tries(fatal):
    dies, tries = dying_on(fatal)
    assert fatal_record(RANGES, (), dies) == of(fatal[0], fatal[1], fatal[1] + 1)
    assert len(tries) <= 11 + 1 + 3  # halves of 1,005 offsets, another part, twice alone and once without its bytes


def test_of_several_each_is_found_once_those_before_are_hidden():
    dies, _ = dying_on((1, 3), (1, 4), (2, 70))
    found: tuple[StreamRange, ...] = ()
    for _ in range(3):
        found = (*found, fatal_record(RANGES, found, dies))
    assert set(offsets(found)) == {(1, 3), (1, 4), (2, 70)}
    assert fatal_record(RANGES, found, dies) is None


def test_no_record_is_blamed_where_the_process_dies_without_its_bytes_too():
    assert fatal_record(RANGES, (), lambda ranges, _: (1, 731) in offsets(ranges)) is None


def test_no_record_is_blamed_while_the_machine_ends_every_reader_that_is_shown_a_record():
    assert fatal_record(RANGES, (), lambda ranges, hidden: bool(set(offsets(ranges)) - set(offsets(hidden)))) is None


@pytest.mark.parametrize("deaths", range(40))
def test_no_record_is_blamed_by_a_machine_that_ends_readers_for_a_while(deaths):
    left = iter(range(deaths))
    assert fatal_record(RANGES, (), lambda *_: next(left, None) is not None) is None


def test_the_only_record_of_a_batch_is_found_though_there_is_no_other_to_live_on():
    dies, _ = dying_on((2, 70))
    assert fatal_record((of(2, 70, 71),), (), dies) == of(2, 70, 71)


def test_no_record_is_blamed_that_was_survived_alone():
    seen = []

    def dies(ranges, _hidden) -> bool:
        seen.append(ranges)
        return len(offsets(ranges)) > 1 or len(seen) % 2 == 0

    assert fatal_record(RANGES, (), dies) is None


def test_no_record_is_blamed_that_was_survived_at_its_second_time():
    alone = []

    def dies(_ranges, hidden) -> bool:
        alone.append(hidden)
        return len(alone) == 1

    assert fatal_record((of(2, 70, 71),), (), dies) is None
    assert alone == [(), ()]


def test_only_the_proof_on_one_record_has_the_whole_deadline():
    assert trial_seconds(RANGES, 600) == 60
    assert trial_seconds((of(1, 0, 2),), 600) == 60
    assert trial_seconds((of(1, 0, 1),), 600) == 600
    assert trial_seconds((of(1, 0, 2),), 2) == 1


@pytest.mark.parametrize("size", [0, 1, 2**31])
def test_the_size_of_a_hidden_record_tells_why_it_is_hidden(size):
    for reason in (READER_ENDED_TWICE, READER_BUSY_TWICE, HEADERS_UNREADABLE):
        hidden = hidden_size(size, reason)
        assert hidden < 0
        assert ~hidden % 2**32 == size
        assert hidden_reason(hidden) == reason
