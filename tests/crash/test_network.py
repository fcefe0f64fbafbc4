"""Tests a network that cuts, falls silent, holds a COMMIT or loses its answer.

The ledger knows the outcome, and nothing is done twice.
"""

from __future__ import annotations

import threading

import pytest

from lockstep.adapters import postgres
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.planning.decisions import Idle
from lockstep.steps.attempt import resolve
from lockstep.steps.upkeep.reap import reap
from support.scenes.here import Told

RESULTS = b"insert into lockstep.commit"
A_ROW = b"r0\t0"  # in what COPY sends
# The words of each transaction on the way, first to last.
ON_THE_WAY = {
    "plan": b"insert into lockstep.batch",
    "open": b"insert into lockstep.attempt",
    "copy": b"copy lockstep_staging",
    "staged": b"insert into lockstep.manifest",
    "validated": b"insert into lockstep.verdict",
    "backend": b"set backend_pid",
    "commit": RESULTS,
    "drop": b"drop table",
}


def exactly_once(here, records: int = 150) -> None:
    """Checks that the next run reaches the log's end, and that every promise holds with nothing left behind."""
    here.drain()
    for _ in range(40):  # until the server, too, has noticed the lost client
        if not reap(here.at.conn).held:
            break
    assert isinstance(here.run().decision, Idle)
    assert here.drill.ask("select count(*) from public.drill") == [(records,)]
    assert len(here.drill.committed()) == 1
    assert here.drill.violations(rest=True) == []


@pytest.mark.parametrize("lost", ON_THE_WAY)
def test_whichever_acknowledgement_is_lost_the_batch_is_done_once(far, proxy, lost):
    proxy.at_commit(ON_THE_WAY[lost], "lose")

    said = Told(far).end()

    assert proxy.struck.is_set()
    assert isinstance(said, Unreachable) or said.went_on, said
    exactly_once(far)


def test_a_lost_acknowledgement_of_the_commit_is_told_as_committed(far, proxy):
    proxy.at_commit(RESULTS, "lose")

    said = Told(far).end()

    assert proxy.struck.is_set()
    assert said.superseded is None
    assert said.ranges
    assert {row.state for row in said.ranges} == {"committed"}
    assert far.drill.ask("select state from lockstep.attempt") == [("committed",)]
    exactly_once(far)


@pytest.mark.parametrize("cut", ON_THE_WAY)
def test_wherever_the_connection_is_cut_before_a_commit_the_batch_is_done_once(far, proxy, cut):
    proxy.at_commit(ON_THE_WAY[cut], "cut")
    threading.Thread(target=lambda: proxy.struck.wait(30) and proxy.pass_on(), daemon=True).start()

    said = Told(far).end()

    assert proxy.struck.is_set()
    assert isinstance(said, Unreachable) or said.went_on, said
    proxy.pass_on()  # the thread may not have come to it yet
    exactly_once(far)


def test_a_connection_cut_in_the_copy_is_a_refusal_and_the_next_run_does_it(far, proxy):
    proxy.at_words(A_ROW, "cut")

    said = Told(far).end()
    assert isinstance(said, Unreachable), said
    assert "\n" not in str(said)
    proxy.pass_on()

    exactly_once(far)


def test_a_commit_that_comes_while_the_resolver_waits_is_found(far, proxy):
    proxy.at_commit(RESULTS, "hold")
    told = Told(far)
    assert proxy.struck.wait(30)
    waiting_for_the_batch(far)

    proxy.pass_on()

    assert told.end().superseded is None
    assert far.drill.ask("select state from lockstep.attempt") == [("committed",)]
    exactly_once(far)


def test_a_commit_that_comes_after_the_retry_finds_its_backend_ended(far, proxy, monkeypatch):
    monkeypatch.setattr(resolve, "RESOLVE_LOCK_SECONDS", 1)  # sooner than the session would end by itself
    proxy.at_commit(RESULTS, "hold")

    said = Told(far).end()
    assert proxy.struck.is_set()
    assert {row.state for row in said.ranges} == {"committed"}
    before = far.drill.ask("select xmin::text, * from lockstep.commit order by 2, 3")
    proxy.pass_on()  # only now the first COMMIT arrives

    assert far.drill.ask("select xmin::text, * from lockstep.commit order by 2, 3") == before
    exactly_once(far)


def test_a_committer_in_a_black_hole_loses_its_lock_and_another_takes_over(far, proxy, drill, monkeypatch):
    impatient(monkeypatch)
    proxy.at_commit(RESULTS, "hole")
    lost = Told(far)
    assert proxy.struck.wait(30)

    other = type(far)(drill)
    assert Told(other, owner="other", take_over=True).end().superseded is None
    proxy.pass_on()

    assert lost.end().superseded
    exactly_once(far)


def test_staging_into_a_black_hole_ends_and_the_next_run_does_it(far, proxy, monkeypatch):
    impatient(monkeypatch)
    proxy.at_words(A_ROW, "hole")
    told = Told(far)
    assert proxy.struck.wait(30)

    assert isinstance(told.end(), Refusal)
    proxy.pass_on()

    exactly_once(far)


def impatient(monkeypatch) -> None:
    monkeypatch.setattr(postgres, "SILENT_SECONDS", 2)
    monkeypatch.setattr(postgres, "CONNECT_SECONDS", 2)


def waiting_for_the_batch(here) -> None:
    for _ in range(500):
        waiting = (
            "select 1 from pg_stat_activity where datname = current_database()"
            " and application_name = 'lockstep resolve' and wait_event_type = 'Lock'"
        )
        if here.drill.ask(waiting):
            return
        threading.Event().wait(0.02)
    raise AssertionError("nobody ever waited for the batch")
