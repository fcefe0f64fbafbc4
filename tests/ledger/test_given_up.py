"""Tests that no offset is given up without a decision that names it: as lost or as skipped, by any role and any statement."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg2
import pytest

from lockstep.adapters.postgres import connect, transaction
from lockstep.core.proof.given_up import OffsetCounts
from lockstep.ledger.proof.given_up import given_up_check
from support.fakes.ledger_rows import commit_in, read

COVER = "insert into lockstep.coverage (stream_id, offsets, kind) values ({s}, '[{low},{high})', '{kind}')"
MOVE = "update lockstep.stream set position = {high} where stream_id = {s}"
DECIDE = """insert into lockstep.decision (pipeline, kind, who, why, detail) values ('{pipeline}', '{kind}', 'me', 'because',
    '{{"stream_id": {s}, "topic": "orders.v1", "partition": 0, "from_offset": {low}, "until_offset": {high}}}')"""
KINDS = {"loss": "accept-loss", "skipped": "skip"}


@pytest.fixture
def session(database):
    with closing(connect(database)) as conn:
        yield conn


@pytest.fixture
def act(session):
    """Returns `act(role, statement, ...)`: statements in one transaction, and the constraint that refused it."""

    def run(role: str, *statements: str, **values: Any) -> str | None:
        try:
            with transaction(session, role) as cur:
                for statement in statements:
                    cur.execute(statement if "lockstep.decision" in statement else statement.format(**values))
        except psycopg2.Error as error:
            return error.diag.constraint_name or str(error)
        return None

    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ["lockstep_planner", "lockstep_committer", "lockstep_partition"])
def test_a_position_does_not_pass_offsets_that_nobody_decided_to_give_up(ledger, act, role, kind):
    s = ledger.stream(0)
    refused = act(role, COVER, MOVE, s=s, low=0, high=4, kind=kind)
    assert refused in ("given_up_by_decision", "own_range")
    assert ledger.ask("select position from lockstep.stream") == [(0,)]
    if role != "lockstep_partition":
        assert refused == "given_up_by_decision"


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_are_given_up_by_a_decision_of_the_same_transaction(ledger, act, kind):
    s = ledger.stream(0)
    decide = DECIDE.format(pipeline="orders", kind=KINDS[kind], s=s, low=0, high=4)
    assert (
        act("lockstep_planner", COVER, MOVE, "savepoint x", decide, "release x", s=s, low=0, high=4, kind=kind) is None
    )
    assert ledger.ask("select kind, lower(offsets), upper(offsets) from lockstep.coverage") == [(kind, 0, 4)]


OTHERS = {
    "another kind": {"kind": "skip"},
    "fewer offsets": {"high": 3},
    "later offsets": {"low": 1, "high": 5},
    "another stream": {"s": 2},
    "another pipeline": {"pipeline": "clicks"},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_decision_about_something_else_gives_nothing_up(ledger, act, other):
    s = ledger.stream(0)
    ledger.stream(1)
    ledger.ask("insert into lockstep.pipeline (name) values ('clicks') returning 1")
    decide = DECIDE.format(**{"pipeline": "orders", "kind": "accept-loss", "s": s, "low": 0, "high": 4} | other)
    assert act("lockstep_planner", decide, COVER, MOVE, s=s, low=0, high=4, kind="loss") == "given_up_by_decision"


def test_an_earlier_decision_gives_nothing_up(ledger, act):
    s = ledger.stream(0)
    decide = DECIDE.format(pipeline="orders", kind="accept-loss", s=s, low=0, high=4)
    assert act("lockstep_planner", decide) is None
    assert act("lockstep_planner", COVER, MOVE, s=s, low=0, high=4, kind="loss") == "given_up_by_decision"


@pytest.mark.parametrize("kind", KINDS.values())
def test_a_decision_names_its_offsets(ledger, act, kind):
    ledger.stream(0)
    bare = f"insert into lockstep.decision (pipeline, kind, who, why) values ('orders', '{kind}', 'me', 'because')"
    assert act("lockstep_planner", bare) == "given_up_is_told"
    empty = DECIDE.format(pipeline="orders", kind=kind, s=1, low=4, high=4)
    assert act("lockstep_planner", empty) == "given_up_is_told"


def test_what_a_fill_leaves_of_a_skipped_stretch_stays_skipped(ledger, act):
    s = ledger.stream(0)
    ledger.covered(s, 0, 10, "skipped")
    assert act("lockstep_committer", "delete from lockstep.coverage", COVER, COVER.replace("{low},{high}", "4,10"),
               s=s, low=0, high=4, kind="skipped") is None  # fmt: skip
    assert ledger.ask("select lower(offsets), upper(offsets) from lockstep.coverage order by 1") == [(0, 4), (4, 10)]


def test_skipped_neighbours_become_one_row_of_the_same_offsets_and_no_others(ledger, act):
    s = ledger.stream(0)
    ledger.covered(s, 0, 4, "skipped")
    ledger.covered(s, 4, 10, "skipped")
    ledger.ask("update lockstep.stream set position = 10 returning 1")
    merge = ("delete from lockstep.coverage", COVER)
    assert act("lockstep_committer", *merge, s=s, low=0, high=10, kind="skipped") is None
    wider = (*merge, "update lockstep.stream set position = 11")
    assert act("lockstep_committer", *wider, s=s, low=0, high=11, kind="skipped") == "given_up_by_decision"


def test_a_row_that_was_there_for_a_moment_gives_nothing_up(ledger, act):
    s = ledger.stream(0)
    twice = (COVER, "delete from lockstep.coverage", COVER, MOVE)
    assert act("lockstep_planner", *twice, s=s, low=0, high=4, kind="skipped") == "given_up_by_decision"


def test_what_a_batch_has_read_is_not_called_skipped(ledger, act):
    s = ledger.stream(0)
    ledger.done({s: (0, 10)})
    change = ("delete from lockstep.coverage", COVER)
    assert act("lockstep_committer", *change, s=s, low=0, high=10, kind="skipped") == "given_up_by_decision"


def test_what_was_skipped_once_and_filled_is_not_skipped_again_by_the_old_decision(ledger, act):
    s = ledger.stream(0)
    ledger.covered(s, 0, 10, "skipped")
    b = ledger.planned({s: (0, 10)}, lane="fill")
    t = ledger.opened(b)
    with transaction(ledger.conn, "lockstep_owner") as cur:
        cur.execute("delete from lockstep.coverage")
        commit_in(cur, b, t)
    change = ("delete from lockstep.coverage", COVER)
    assert act("lockstep_committer", *change, s=s, low=0, high=10, kind="skipped") == "given_up_by_decision"


def test_verify_counts_what_is_given_up_and_names_what_nobody_decided(conn, ledger):
    s = ledger.stream(0)
    ledger.done({s: (0, 14)})
    assert str(read(conn, given_up_check, "orders").offsets) == "all 14 offsets"
    ledger.covered(s, 14, 15, "loss")
    ledger.covered(s, 15, 16, "skipped")
    check = read(conn, given_up_check, "orders")
    assert check.ok
    assert check.detail == "14 of 16 offsets; 1 lost by decision 1, 1 skipped by decision 2"
    with transaction(conn, "lockstep_owner") as cur:
        cur.execute("alter table lockstep.coverage disable trigger given_up_by_decision")
        cur.execute(COVER.format(s=s, low=16, high=18, kind="loss"))
        cur.execute(MOVE.format(s=s, high=18))
    check = read(conn, given_up_check, "orders")
    assert (check.ok, check.detail) == (False, "orders.v1-0: loss {[16,18)} is named by no decision")
    assert check.offsets == OffsetCounts(18, 3, 1, (1,), (2,))
