"""Tests that constraints alone keep an older incarnation's offsets from today's log, without any code."""

from __future__ import annotations

import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import OWNER, transaction


@pytest.fixture
def truncated(ledger):
    """Makes a stream that was read up to 100, and its successor in the truncated log."""
    old = ledger.stream(0)
    ledger.done({old: (0, 100)})
    ledger.retired(old)
    return old, ledger.stream(0, start=60, incarnation=1, epoch=1)


@pytest.mark.parametrize("lane", ["live", "fill", "replay"])
def test_no_lane_claims_offsets_of_an_older_incarnation(ledger, truncated, lane):
    with pytest.raises(errors.CheckViolation, match=r"one_log: \[0,50\) of stream 1 cannot be read again"):
        ledger.planned({truncated[0]: (0, 50)}, lane=lane)


def test_no_lane_claims_offsets_before_the_truncation(ledger, truncated):
    with pytest.raises(errors.CheckViolation, match=r"one_log: .* begins before its start 60"):
        ledger.planned({truncated[1]: (50, 70)}, lane="fill")


def test_offsets_behind_the_truncation_are_claimed(ledger, truncated):
    assert ledger.planned({truncated[1]: (60, 70)})


def test_offsets_before_the_first_start_and_of_a_grown_stream_are_claimed(ledger):
    old = ledger.stream(0, start=20)
    ledger.retired(old)
    ledger.stream(0, start=20, incarnation=0, epoch=1)
    assert ledger.planned({old: (0, 20)}, lane="fill")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("insert into lockstep.boundary values (1, now(), 5)", "is no time of stream 1"),
        ("insert into lockstep.coverage values (1, '[100,110)', 'loss')", r"\[100,110\) of stream 1 is no loss"),
        ("insert into lockstep.coverage values (1, '[100,110)', 'skipped')", r"\[100,110\) of stream 1 is no skipped"),
    ],
)
@pytest.mark.usefixtures("truncated")
def test_nothing_is_said_of_an_older_incarnation(conn, statement, message):
    with pytest.raises(errors.CheckViolation, match=f"one_log: .*{message}"), transaction(conn, OWNER) as cur:
        cur.execute(statement)


def test_a_boundary_of_the_newest_incarnation_is_kept(conn, truncated):
    with transaction(conn, OWNER) as cur:
        cur.execute("insert into lockstep.boundary values (%s, now(), 65) returning 1", (truncated[1],))
        assert len(cur.fetchall()) == 1


def test_a_new_incarnation_waits_for_the_claims_on_the_older_one(ledger):
    old = ledger.stream(0)
    ledger.planned({old: (0, 10)})
    ledger.retired(old)
    with pytest.raises(errors.CheckViolation, match=r"one_log: stream .* which a batch still claims"):
        ledger.stream(0, incarnation=1, epoch=1)


def test_an_incarnation_is_one_log_and_none_comes_back(ledger):
    ledger.retired(ledger.stream(0, incarnation=1))
    with pytest.raises(errors.CheckViolation, match="which is of a newer or of another log"):
        ledger.stream(0, incarnation=0, epoch=1)
    with pytest.raises(errors.CheckViolation, match="which is of a newer or of another log"):
        ledger.ask(
            "insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset,"
            " position) values ('orders', 'cluster-1', 'orders.v1', 'another', 0, 1, 1, 0, 0) returning 1"
        )
