"""Tests pause and abandon, with hand-written ledger rows."""

from __future__ import annotations

import psycopg2
import pytest

from lockstep.adapters.postgres import transaction
from lockstep.core.changes.person import Person
from lockstep.core.errors import LockTimeout, Refusal
from lockstep.steps.changes import decisions
from support.fakes.ledger_rows import commit_in
from support.scenes.decision_facts import ME, batch_state, claims, decided, position


def test_pause_and_unpause_turn_the_switch_once_and_leave_a_row_each(conn, ledger):
    turns = [
        decisions.pause(conn, "orders", ME),
        decisions.pause(conn, "orders", ME),
        decisions.unpause(conn, "orders", ME),
        decisions.unpause(conn, "orders", ME),
    ]
    assert turns == [True, False, True, False]
    assert decided(ledger) == [("pause", "me@here", "because"), ("unpause", "me@here", "because")]


def test_a_pipeline_can_be_paused_before_its_first_plan(conn, ledger):
    decisions.pause(conn, "orders", ME)
    assert ledger.ask("select name, paused from lockstep.pipeline") == [("orders", True)]


def test_a_decision_needs_a_reason():
    with pytest.raises(Refusal, match="with who takes it and why"):
        Person("me@here", "  ")
    for who, why in (("me@here", "a\0b"), ("me@here", "caf\udce9"), ("caf\udce9@here", "why")):
        with pytest.raises(Refusal, match="holds NUL, or is no text of UTF-8"):
            Person(who, why)


def test_abandon_fences_the_attempt_frees_the_offsets_and_closes_the_batch(conn, ledger):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    token = ledger.opened(batch)

    assert decisions.abandon(conn, batch, ME) is True

    assert ledger.ask("select state, token > %(t)s from lockstep.batch", t=token) == [("abandoned", True)]
    assert ledger.ask("select state, error from lockstep.attempt") == [("abandoned", "abandoned by me@here: because")]
    assert claims(ledger) == []
    assert ledger.ask("select kind, detail from lockstep.decision") == [("abandon", {"batch_id": batch})]


def test_abandon_closes_the_request_of_its_batch(conn, ledger):
    batch = ledger.planned({ledger.stream(0): (0, 10)}, lane="fill")
    decisions.abandon(conn, batch, ME)
    assert ledger.ask("select closed_at is not null from lockstep.request") == [(True,)]


def test_abandoning_twice_changes_nothing_more(conn, ledger):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    assert [decisions.abandon(conn, batch, ME), decisions.abandon(conn, batch, ME)] == [True, False]
    assert len(decided(ledger)) == 1


def test_the_offsets_of_an_abandoned_batch_can_be_planned_again(conn, ledger):
    stream = ledger.stream(0)
    decisions.abandon(conn, ledger.planned({stream: (0, 10)}), ME)
    ledger.done({stream: (0, 12)})
    assert position(ledger, stream) == 12


def test_what_is_committed_is_not_abandoned(conn, ledger):
    batch, token = ledger.done({ledger.stream(0): (0, 10)})
    with pytest.raises(Refusal, match=f"was committed by attempt {token}; what is committed stays"):
        decisions.abandon(conn, batch, ME)
    assert decided(ledger) == []


def test_a_batch_that_is_not_there_is_named(conn):
    with pytest.raises(Refusal, match="the ledger has no batch 77"):
        decisions.abandon(conn, 77, ME)


def test_an_abandon_that_waited_for_a_commit_sees_it(conn, ledger, behind):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    token = ledger.opened(batch)

    with behind("select 1 from lockstep.batch for no key update") as (cur, meanwhile):
        answer = meanwhile(lambda: decisions.abandon(conn, batch, ME))
        commit_in(cur, batch, token)

    assert f"was committed by attempt {token}" in answer()
    assert batch_state(ledger, batch) == "committed"


def test_an_attempt_cannot_commit_after_the_abandon_it_waited_for(conn, ledger):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    token = ledger.opened(batch)
    decisions.abandon(conn, batch, ME)
    with pytest.raises(psycopg2.errors.CheckViolation, match="newest_attempt"):
        ledger.committed(batch, token)


def test_a_decision_does_not_wait_for_ever_and_says_so(conn, ledger, behind, monkeypatch):
    monkeypatch.setitem(transaction.__wrapped__.__kwdefaults__, "lock_seconds", 0.2)  # type: ignore[attr-defined]
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    with behind("select 1 from lockstep.pipeline for no key update"), pytest.raises(LockTimeout) as refused:
        decisions.abandon(conn, batch, ME)
    assert "orders: a plan or a commit is under way" in str(refused.value)
    assert batch_state(ledger, batch) == "planned"
