"""Tests reaping the remains of dead attempts, on a real Postgres."""

from __future__ import annotations

import psycopg2
import pytest

from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.core.errors import LockTimeout
from lockstep.core.staging import stager_of
from lockstep.steps.changes import decisions
from lockstep.steps.upkeep.busy import done_or_left
from lockstep.steps.upkeep.reap import reap
from support.scenes.decision_facts import ME, batch_state, claims

NEVER_AGAIN = {
    "the batch has a newer token": "update lockstep.batch set token = nextval('lockstep.token_seq')",
    "the attempt was closed": "update lockstep.attempt set state = 'failed', closed_at = now()",
    "the batch was abandoned": "update lockstep.batch set state = 'abandoned', closed_at = now(); "
    "delete from lockstep.claim",
}


def do(conn, statement: str) -> None:
    with transaction(conn, OWNER) as cur:
        cur.execute(statement)


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


def lives(session) -> bool:
    """Returns True if the server has not ended this session."""
    try:
        session.cursor().execute("select 1")
    except psycopg2.OperationalError:
        return False
    return True


@pytest.mark.parametrize("statement", NEVER_AGAIN.values(), ids=NEVER_AGAIN)
def test_each_sign_alone_that_an_attempt_cannot_commit_lets_its_table_go(conn, ledger, statement):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    token = ledger.opened(batch, staging=True)
    assert reap(conn).dropped == ()

    do(conn, statement)

    assert reap(conn).dropped == (f"attempt_{batch}_{token}",)


def test_reap_ends_the_session_of_a_zombie_and_of_nobody_else(conn, ledger, database):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    dead, alive = (ledger.opened(batch, staging=True) for _ in range(2))
    tables = [f"attempt_{batch}_{token}" for token in (dead, alive)]
    zombie, holder = (connect(database, name=stager_of(table)) for table in tables)
    for writer, table in ((zombie, tables[0]), (holder, tables[1])):
        with writer.cursor() as cur:
            cur.execute(f"set role lockstep_stager; insert into lockstep_staging.{table} values (1)")

    assert reap(conn).dropped == (tables[0],)

    assert [lives(each) for each in (zombie, holder)] == [False, True]
    holder.close()


def test_reap_ends_a_preview_whose_process_died_and_no_other(conn, ledger):
    dead, alive, replay = (ledger.planned({ledger.stream(p): (0, 10)}, lane="replay") for p in range(3))
    do(conn, "update lockstep.request set preview = true where request_id < 3")
    do(conn, f"update lockstep.batch set lease_until = now() - interval '1 s' where batch_id in ({dead}, {replay})")

    reap(conn)

    assert [batch_state(ledger, batch) for batch in (dead, alive, replay)] == ["abandoned", "planned", "planned"]
    assert {batch for (batch,) in claims(ledger)} == {alive, replay}
    assert ledger.ask("select request_id from lockstep.request where closed_at is not null") == [(1,)]


def test_what_somebody_holds_is_left_and_named_and_the_others_are_done():
    def work(name: str) -> int:
        if name == "held":
            raise LockTimeout("a lock was held too long")
        return 2

    left = ["rejects of held: a lock was held too long"]
    assert done_or_left(["one", "held", "another"], "rejects", work) == (4, left)
