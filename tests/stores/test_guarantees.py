"""Tests the promises of each guarantee, and their limits, by processes that die between results and offsets."""

from __future__ import annotations

import pytest

from support.scenes.here import Here

ALL = ["Idempotent()", "AtLeastOnce()", "AtMostOnce()"]


def killed_then_finished(drill, point: str) -> None:
    drill.dies_at(point)
    drill.finishes()


@pytest.mark.parametrize("store", ["own", "warehouse", "files"])
def test_idempotent_a_crash_between_the_moves_loses_and_doubles_nothing(delivered, store):
    drill = delivered("Idempotent()", store)

    drill.dies_at("deliver.done")
    before = drill.rows()
    assert drill.committed() == []
    drill.finishes()

    assert len(before) == 150, "results are there before their offsets: a reader may see them early"
    assert drill.rows() == before
    assert drill.counted() == (0, 0)
    assert all(ok for ok, _ in drill.verified().values()), drill.verified()


@pytest.mark.parametrize("store", ["warehouse", "files"])
@pytest.mark.parametrize("point", ["deliver.written", "commit.ledger_written", "commit.done_unacknowledged"])
def test_idempotent_wherever_it_dies_each_record_is_there_once(delivered, store, point):
    drill = delivered("Idempotent()", store)

    killed_then_finished(drill, point)

    assert drill.counted() == (0, 0)
    assert len(drill.committed()) == 1


@pytest.mark.parametrize("store", ["own", "warehouse", "files"])
def test_at_least_once_a_crash_between_the_moves_doubles_and_loses_nothing(delivered, store):
    drill = delivered("AtLeastOnce()", store)

    killed_then_finished(drill, "deliver.done")

    assert drill.counted() == (0, 150)
    checks = drill.verified()
    assert all(ok for ok, _ in checks.values()), checks
    assert "150 rows more than records" in checks["rows are all there"][1]


@pytest.mark.parametrize("store", ["own", "warehouse", "files"])
def test_at_most_once_a_crash_between_the_moves_loses_doubles_nothing_and_names_what_is_lost(delivered, store):
    drill = delivered("AtMostOnce()", store)

    killed_then_finished(drill, "commit.done_unacknowledged")

    assert drill.counted() == (150, 0)
    (batch, _), *_ = drill.committed()
    ok, detail = drill.verified()["what may be lost is named"]
    assert ok
    assert detail.count(f"batch {batch} ") == 3, detail


def test_at_most_once_what_was_delivered_and_not_confirmed_is_named_too(delivered):
    drill = delivered("AtMostOnce()", "warehouse")

    killed_then_finished(drill, "deliver.done")

    assert drill.counted() == (0, 0)
    assert "never confirmed" in drill.verified()["what may be lost is named"][1]


def test_at_most_once_a_replay_brings_what_was_lost(delivered):
    drill = delivered("AtMostOnce()", "warehouse")
    killed_then_finished(drill, "commit.done_unacknowledged")

    Here(drill).replay("1", "1")

    assert drill.counted() == (0, 0)
    assert drill.verified()["what may be lost is named"] == (True, "every delivery was confirmed")


@pytest.mark.parametrize("guarantee", ALL)
def test_undisturbed_each_guarantee_brings_each_record_once(delivered, guarantee):
    drill = delivered(guarantee, "warehouse")

    drill.finishes()

    assert drill.counted() == (0, 0)
    assert all(ok for ok, _ in drill.verified().values())
