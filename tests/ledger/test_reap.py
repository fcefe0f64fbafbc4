"""Tests reaping the remains of dead attempts, on a real Postgres."""

from __future__ import annotations

from decision_facts import ME
from lockstep.steps import decisions
from lockstep.steps.reap import reap


def test_reap_drops_what_dead_attempts_left_and_nothing_that_may_still_commit(conn, ledger):
    stream, other = ledger.stream(0), ledger.stream(1)
    batch = ledger.planned({stream: (0, 10)})
    superseded = ledger.opened(batch, staging=True)
    newest = ledger.opened(batch, staging=True)
    gone = ledger.planned({other: (0, 10)}, lane="fill")
    abandoned = ledger.opened(gone, staging=True)
    decisions.abandon(conn, gone, ME)

    done = reap(conn)

    assert set(done.dropped) == {f"attempt_{batch}_{superseded}", f"attempt_{gone}_{abandoned}"}
    assert ledger.ask(
        "select relname::text from pg_class where relname like 'attempt\\_%%\\_%%' and relkind = 'r'"
    ) == [(f"attempt_{batch}_{newest}",)]
    assert reap(conn).dropped == ()


def test_reap_leaves_the_table_that_a_zombie_still_writes_and_goes_on(conn, ledger, behind):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    tokens = [ledger.opened(batch, staging=True) for _ in range(2)]
    decisions.abandon(conn, batch, ME)
    held, free = (f"attempt_{batch}_{token}" for token in tokens)

    with behind(f"insert into lockstep_staging.{held} values (1)", role="lockstep_stager"):
        done = reap(conn)

    assert (done.dropped, done.held) == ((free,), (held,))
    assert reap(conn).dropped == (held,)
