"""Tests that what the ledger remembers goes only with the attempt or the decision that may take it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg2
import pytest

from lockstep.adapters.postgres import connect, transaction
from lockstep.ledger.proof.memory import memory_checks
from support.fakes.ledger_rows import read

TOMB = """insert into lockstep.tombstone (target, key, stream_id, "offset") values ('public.orders', '["{key}"]', {s}, {at})"""
REJECT = "insert into lockstep.reject (stream_id, \"offset\", batch_id, reason) values ({s}, {at}, {b}, 'bad')"
DECIDE = """insert into lockstep.decision (pipeline, kind, who, why, detail)
    values ('{pipeline}', '{kind}', 'me', 'because', '{detail}')"""
HANDED = '{"store": "", "target": "public.orders", "from": "orders", "to": "other"}'
OWNER_GONE = "delete from lockstep.target_owner where pipeline = 'orders'"


@pytest.fixture
def session(database):
    with closing(connect(database)) as conn:
        yield conn


@pytest.fixture
def act(session):
    """Returns `act(role, statement, ...)`: statements in one transaction, and the constraint that refused it."""

    def run(role: str, *statements: str) -> str | None:
        try:
            with transaction(session, role) as cur:
                for statement in statements:
                    cur.execute(statement)
        except psycopg2.Error as error:
            return error.diag.constraint_name or str(error)
        return None

    return run


@pytest.fixture
def known(ledger) -> dict[str, Any]:
    """Makes a committed batch with a deletion and a reject, a batch under way behind it, and an owner."""
    s = ledger.stream(0)
    b, t = ledger.done({s: (0, 10)}, rejected=1)
    ledger.ask(TOMB.format(key="a", s=s, at=5) + "; " + REJECT.format(s=s, at=6, b=b) + " returning 1")
    ledger.ask(
        "insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.orders', 'orders') returning 1"
    )
    later = ledger.planned({s: (10, 20)})
    return {"s": s, "b": b, "t": t, "later": later, "t2": ledger.opened(later)}


FORGOTTEN = {
    "a deletion": "delete from lockstep.tombstone",
    "a deletion's offset": 'update lockstep.tombstone set "offset" = "offset" + 1',
    "a deletion's key": """update lockstep.tombstone set key = '["b"]'""",
    "a deletion's target": "update lockstep.tombstone set target = 'public.other'",
    "a reject": "delete from lockstep.reject",
}


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("role", ["lockstep_committer", "lockstep_partition"])
@pytest.mark.parametrize("statement", FORGOTTEN.values(), ids=FORGOTTEN)
def test_a_memory_stays_without_the_attempt_that_reads_its_offsets_again(act, role, statement):
    assert act(role, statement) == "memory_stays"


@pytest.mark.usefixtures("known")
def test_a_planner_forgets_no_deletion_that_upkeep_has_not_passed(act):
    assert act("lockstep_planner", "delete from lockstep.tombstone") == "memory_stays"


@pytest.mark.usefixtures("known")
def test_upkeep_forgets_a_deletion_below_what_it_let_go(ledger, act):
    ledger.ask("delete from lockstep.claim returning 1")
    up = "update lockstep.stream set upkept_below = 6"
    assert act("lockstep_planner", up, "delete from lockstep.tombstone") is None


def replayed(ledger, s: int, b: int) -> int:
    r = ledger.planned({s: (0, 10)}, lane="replay")
    ledger.ask(
        "update lockstep.claim set expects = 'batch', expects_batch = %(b)s where batch_id = %(r)s returning 1",
        b=b,
        r=r,
    )
    return r


def test_a_replay_under_way_takes_what_its_segment_left_and_reads_it_again(ledger, act, known):
    r = replayed(ledger, known["s"], known["b"])
    assert act("lockstep_committer", "delete from lockstep.reject") == "memory_stays", "no attempt is open"
    ledger.opened(r)
    for taken in ("delete from lockstep.reject", "delete from lockstep.tombstone"):
        assert act("lockstep_committer", taken) == "read_again", "the commit that reads it is not in the transaction"


@pytest.mark.usefixtures("known")
def test_a_batch_under_way_moves_a_deletion_to_its_own_offsets_and_no_others(act):
    moved = 'update lockstep.tombstone set "offset" = {at}'
    assert act("lockstep_committer", moved.format(at=20)) == "memory_stays"
    assert act("lockstep_committer", moved.format(at=12)) is None


@pytest.mark.usefixtures("known")
def test_an_owner_goes_with_a_decision_of_the_same_transaction_that_names_its_table(act):
    assert act("lockstep_planner", OWNER_GONE) == "owner_stays"
    handed = DECIDE.format(pipeline="orders", kind="hand-over", detail=HANDED)
    assert act("lockstep_planner", handed) is None
    assert act("lockstep_planner", OWNER_GONE) == "owner_stays"
    assert act("lockstep_planner", OWNER_GONE, handed.replace("public.orders", "public.other")) == "owner_stays"
    assert act("lockstep_planner", OWNER_GONE, handed) is None


@pytest.mark.usefixtures("known")
def test_an_owner_goes_when_its_pipeline_is_forgotten(act):
    forget = DECIDE.format(
        pipeline="orders", kind="forget", detail='{"tables": [{"store": "", "target": "public.orders"}]}'
    )
    assert act("lockstep_planner", OWNER_GONE, forget) is None


@pytest.mark.usefixtures("known")
def test_a_pipeline_is_paused_by_a_decision_of_the_same_transaction(act):
    paused = "update lockstep.pipeline set paused = not paused"
    assert act("lockstep_planner", paused) == "paused_by_decision"
    wrong = DECIDE.format(pipeline="orders", kind="unpause", detail="{}")
    assert act("lockstep_planner", paused, wrong) == "paused_by_decision"
    right = DECIDE.format(pipeline="orders", kind="pause", detail="{}")
    assert act("lockstep_planner", paused, right) is None
    assert act("lockstep_planner", paused, right) == "paused_by_decision"
    assert act("lockstep_planner", paused, wrong) is None


def test_verify_misses_what_somebody_took_without_the_guards(conn, ledger):
    ledger.stream(0)
    ledger.ask(
        "insert into lockstep.definition values"
        " ('d1', 'orders', '{\"target\": [{\"table\": \"public.orders\"}]}', 'v1') returning 1"
    )
    ledger.ask(
        "insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.orders', 'orders') returning 1"
    )
    ledger.ask("update lockstep.migration set applied_at = '2026-01-01' where version = 21 returning 1")
    ledger.done({1: (0, 10)})
    assert [check.detail for check in read(conn, memory_checks, "orders") if not check.ok] == []
    ledger.ask(f"{OWNER_GONE}; update lockstep.pipeline set paused = true returning 1")
    assert [check.detail for check in read(conn, memory_checks, "orders") if not check.ok] == [
        "public.orders has no recorded owner, and no decision gave it away",
        "the ledger says paused, and the last decision about it says nothing",
    ]


OVER = "select lockstep.pass_over({token}, {batch}, {stream})"


@pytest.mark.parametrize(
    "seen",
    [
        {"token": 2**63 - 2000, "batch": 0, "stream": 0},
        {"token": 0, "batch": 2**63 - 2000, "stream": 0},
        {"token": 0, "batch": 0, "stream": 2**31 - 1},
        {"token": 2**41, "batch": 0, "stream": 0},
        {"token": 0, "batch": 0, "stream": 2**25},
    ],
    ids=["tokens", "batches", "streams", "a jump", "a jump of streams"],
)
def test_no_sequence_is_exhausted_by_one_call(act, ledger, seen):
    ledger.stream(0)
    restored = DECIDE.format(pipeline="orders", kind="restored", detail="{}")
    assert act("lockstep_planner", restored, OVER.format(**seen)) == "passed_over_within_reach"
    assert ledger.planned({ledger.stream(1): (0, 10)}) < 10


def test_sequences_are_passed_over_by_a_decision_of_the_same_transaction(act, ledger):
    ledger.stream(0)
    over = OVER.format(token=5000, batch=5000, stream=50)
    restored = DECIDE.format(pipeline="orders", kind="restored", detail="{}")
    assert act("lockstep_planner", over) == "passed_over_by_decision"
    assert act("lockstep_planner", restored, over) is None
    assert ledger.planned({ledger.stream(1): (0, 10)}) > 5000
