"""Tests that the database keeps the promises of a relay by itself: raw SQL as the owner, without the code's own checks."""

from __future__ import annotations

import psycopg2
import pytest

from lockstep.adapters.postgres import OWNER, transaction
from support.scenes.undone import roles_that_may

ANOTHER = """insert into lockstep.feed (target, name, key, keep, began_empty)
    values ('public.x', 'public_x', '{{id}}', '1 day', true);
    insert into lockstep.relay (target, topic, transactional_id, began_at, confirmed)
    values ('public.x', 'sink', '{}', {}, {})"""
UNGUARDED = "alter table lockstep.relay disable trigger confirmed_rises; "
MOVE = "update lockstep.relay set {} where target = 'public.orders'"
DECIDED = """insert into lockstep.decision (pipeline, kind, who, why, detail)
    values ('orders', '{}', 'me', 'x', '{}');
    update lockstep.relay set restarted_by = (select max(decision_id) from lockstep.decision), began_at = {}, confirmed = {}"""
FOR_THIS = '{"target": "public.orders", "number": 0}'
# constraint → what must be refused, by its name. The feed has one change, which is sent.
REFUSED = [
    ("known_whole", UNGUARDED + MOVE.format("topic_id = null")),
    ("one_writer", ANOTHER.format("lockstep.0.orders", 0, 0)),
    (
        "one_feed_a_topic",
        ANOTHER.format("another", 0, 0)
        + "; update lockstep.relay set cluster_id = 'c', topic_id = 't', partitions = 1 where target = 'public.x'",
    ),
    ("intent_ahead", MOVE.format("intent = 1")),
    ("intent_ahead", UNGUARDED + MOVE.format("began_at = -1")),
    ("intent_ahead", UNGUARDED + MOVE.format("confirmed = 0, began_at = 1")),
    ("confirmed_rises", MOVE.format("confirmed = 0")),
    ("confirmed_rises", MOVE.format("confirmed = 2")),
    ("confirmed_rises", MOVE.format("intent = 2")),
    ("confirmed_rises", MOVE.format("token = 0")),
    ("confirmed_rises", MOVE.format("topic = 'other'")),
    ("confirmed_rises", MOVE.format("topic_id = 'u'")),
    ("confirmed_rises", MOVE.format("partitions = 2")),
    ("confirmed_rises", MOVE.format("cluster_id = 'd'")),
    ("confirmed_rises", MOVE.format("transactional_id = 'mine'")),
    ("confirmed_rises", ANOTHER.format("another", 1, 1)),
    ("confirmed_rises", DECIDED.format("restart-relay", FOR_THIS, 1, 1)),
    ("confirmed_rises", DECIDED.format("restart-relay", FOR_THIS.replace("orders", "x"), 0, 0)),
    ("confirmed_rises", DECIDED.format("pause", FOR_THIS, 0, 0)),
    ("told_before_trimmed", UNGUARDED + MOVE.format("confirmed = 0") + "; update lockstep.feed set kept_from = 1"),
]
CASES = [
    pytest.param(name, statement, id=f"{name}-{sum(n == name for n, _ in REFUSED[:place])}")
    for place, (name, statement) in enumerate(REFUSED)
]


@pytest.fixture
def sent(ledger, orders):
    """Makes a relay that has sent the one change of the feed."""
    assert orders
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("insert into lockstep.relay (target, topic, transactional_id, began_at, confirmed)"
                    " values ('public.orders', 'sink', 'lockstep.0.orders', 0, 0)")  # fmt: skip
        cur.execute(
            "update lockstep.relay set cluster_id = 'c', topic_id = 't', partitions = 1, token = 1, confirmed = 1"
        )
    return ledger


@pytest.mark.parametrize(("name", "statement"), CASES)
def test_a_constraint_of_a_relay_refuses_by_itself(sent, name, statement):
    with pytest.raises(psycopg2.Error) as refused, transaction(sent.conn, OWNER) as cur:
        cur.execute(statement)
    assert (refused.value.diag.constraint_name, name in str(refused.value)) == (name, True)


def test_a_decision_lets_a_relay_begin_anew(sent):
    with transaction(sent.conn, OWNER) as cur:
        cur.execute(DECIDED.format("restart-relay", FOR_THIS, 0, 0))
    assert sent.ask("select confirmed, began_at, intent from lockstep.relay") == [(0, 0, None)]


def test_no_role_of_a_run_makes_or_removes_a_relay(sent):
    for statement in ("delete from lockstep.relay", ANOTHER.format("another", 0, 0)):
        assert roles_that_may(sent.conn, statement) == set(), statement
