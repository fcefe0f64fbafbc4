"""Tests which limits and how many tasks suit the pace of past batches, and when nothing is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.core.health.machine_findings import MachineFacts, pace_findings
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline
from lockstep.core.planning.tasks import PastBatch, PastBatches

FIVE_MINUTES = "*/5 * * * *"
MACHINE = MachineFacts({}, None, cores=4, spark_memory=2**30, memory=2**34)
PARTITIONS = 8


def batches(offsets: int, seconds: float, number: int = 6) -> PastBatches:
    return PastBatches(tuple(PastBatch(offsets, seconds) for _ in range(number)))


def pipeline(limits: Limits, schedule: str | None = FIVE_MINUTES) -> Pipeline:
    return Pipeline("orders", "orders.v1", Json("id string"), Append("public.orders"), limits=limits, schedule=schedule)


def remedy(limits: Limits, past: PastBatches, schedule: str | None = FIVE_MINUTES, machine=MACHINE) -> str | None:
    found = [each for each in pace_findings(pipeline(limits, schedule), machine, past, PARTITIONS) if each]
    assert all(each.severity == "warning" for each in found)
    return found[0].remedy if found else None


BIG = Limits(records=500_000)
SMALL = Limits(records=1_000)
# Limits, past, the line to paste, and why. Between two runs are 300 seconds, and half of them are 150.
CASES = [
    (BIG, batches(400_000, 600), "limits=Limits(records=100_000, seconds=150),  # 4 tasks", "667 a second: 750 s"),
    (BIG, batches(130_000, 60), None, "2,167 a second: 231 s, within the five minutes"),
    (BIG, batches(125_000, 100), "limits=Limits(records=180_000, seconds=150),  # 4 tasks", "1,250 a second: 400 s"),
    (BIG, batches(124_000, 600), None, "less than a quarter of the limit tells nothing of a full batch"),
    (BIG, batches(400_000, 600, 4), None, "four batches are not enough"),
    (BIG, PastBatches(), None, "none are"),
    (BIG, batches(400_000, 0), None, "a batch that took no time tells no pace"),
    (SMALL, batches(1_000, 4), "limits=Limits(records=37_000, seconds=150),  # 4 tasks", "250 a second, and all full"),
    (SMALL, batches(890, 4), None, "none is full: nothing is left waiting"),
    (SMALL, batches(1_000, 80), None, "1,800 would suit: not twice as many"),
    (Limits(records=500_000, seconds=10), batches(2_500, 10), "limits=Limits(records=37_000, seconds=150),  # 4 tasks",
     "the limit in seconds is the tight one"),
    (Limits(records=1_000, per_partition=125), batches(1_000, 4),
     "limits=Limits(records=37_000, per_partition=4_700, seconds=150),  # 4 tasks", "each partition's share grows, too"),
    (Limits(records=500_000, per_partition=125), batches(1_000, 4),
     "limits=Limits(records=37_000, per_partition=4_700, seconds=150),  # 4 tasks", "all partitions' shares are the limit"),
    (Limits(records=500_000, bytes=2**20), replace(batches(1_000, 4), bytes_per_offset=1_048.6), None,
     "a limit in bytes is for memory, and no pace changes that"),
    (SMALL, replace(batches(1_000, 1), bytes_per_offset=10_737.0),
     "limits=Limits(records=50_000, seconds=150),  # 4 tasks", "150,000 would suit, and half the memory holds 50,000"),
    (SMALL, replace(batches(1_000, 4), bytes_per_offset=400_000.0), None, "half the memory holds 1,342"),
    (SMALL, replace(batches(1_000, 1), bytes_per_offset=4_000_000.0), None, "too large for memory is said by another check"),
    (BIG, replace(batches(500_000, 750), arrival=1_000.0),
     "limits=Limits(records=300_000, seconds=150),  # 12 tasks, and so many partitions: SPARK_MASTER=local[12]",
     "1,000 a second arrive and 667 are read by four cores"),
    (BIG, replace(batches(400_000, 600), arrival=1_000.0),
     "limits=Limits(records=100_000, seconds=150),  # 4 tasks", "none is full: whatever came at once, nothing is left"),
    (BIG, replace(batches(500_000, 750), arrival=600.0),
     "limits=Limits(records=100_000, seconds=150),  # 4 tasks", "what arrives is read"),
]  # fmt: skip


@pytest.mark.parametrize(("limits", "past", "expected", "reason"), CASES, ids=[case[-1] for case in CASES])
def test_the_line_to_paste_has_the_limits_that_suit(limits, past, expected, reason):
    assert remedy(limits, past) == expected, reason


@pytest.mark.parametrize("schedule", [None, "@continuous"])
def test_nothing_is_said_without_two_runs_to_fit_between(schedule):
    assert remedy(BIG, batches(400_000, 600), schedule) is None


def test_a_line_that_was_pasted_is_the_end_of_it():
    past = batches(400_000, 600)
    assert remedy(Limits(records=100_000, seconds=150), past) is None
    assert remedy(Limits(records=37_000, seconds=150), batches(37_000, 148)) is None


def test_on_a_cluster_its_own_setting_gives_the_tasks():
    cluster = replace(MACHINE, cores=None, spark_memory=None)
    past = replace(batches(500_000, 750), arrival=1_000.0)
    assert remedy(BIG, past, machine=cluster) == (
        "limits=Limits(records=300_000, seconds=150),  # 24 tasks, and so many partitions: executors with 24 cores"
    )


def test_it_says_what_was_seen_and_why_that_matters():
    def said(limits: Limits, past: PastBatches) -> tuple[str, str, str]:
        (found,) = pace_findings(pipeline(limits), MACHINE, past, PARTITIONS)
        return found.subject, found.found, found.why

    assert said(BIG, batches(400_000, 600)) == (
        "pipeline orders",
        "500,000 offsets, as many as a batch may have, take 750.0 seconds at 667 a second; runs are 300 seconds apart",
        "a batch should take half of that time, so that a run that failed can be tried again before records are late",
    )
    assert said(SMALL, batches(1_000, 4))[1:] == (
        "1,000 offsets, as many as a batch may have, take 4.0 seconds at 250 a second; runs are 300 seconds apart",
        "its batches are full and end early: records wait for the next run while nothing is read",
    )
    assert said(BIG, replace(batches(500_000, 750), arrival=1_000.0))[2] == (
        "1,000 offsets a second arrive, more than are read: with any limits the lag grows, and more tasks are needed"
    )


def test_enough_history_that_suits_is_a_check_that_passed_and_too_little_is_none():
    assert pace_findings(pipeline(BIG), MACHINE, batches(130_000, 60), PARTITIONS) == [None]
    assert pace_findings(pipeline(BIG), MACHINE, batches(400_000, 600, 4), PARTITIONS) == []
