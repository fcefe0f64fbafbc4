"""Tests that images stay as they were caught, but for an erasure of their own key: raw SQL as the owner and as each role."""

from __future__ import annotations

import psycopg2
import pytest

from lockstep.adapters.postgres import COMMITTER, OWNER, transaction
from lockstep.core.health.ledger_findings import OF_A_RUN
from support.scenes.undone import roles_that_may

SALT = "insert into lockstep.erasure_salt (pipeline) values ('{of}') on conflict do nothing; "
OPEN = """insert into lockstep.erasure (pipeline, column_name, as_uuid, digest)
    select '{of}', '{column}', false, lockstep.key_digest(z.salt, convert_to('{key}', 'UTF8'))
    from lockstep.erasure_salt z where z.pipeline = '{of}'; """
NAME = "insert into lockstep.blank_change select max(erasure_id), {}, {} from lockstep.erasure; "
DECIDE = """insert into lockstep.decision (pipeline, kind, who, why, detail) select 'orders', 'erase', 'me', 'x',
    jsonb_build_object('erasure', erasure_id, 'key', digest, 'erased', lockstep.erased_digest(erasure_id))
    from lockstep.erasure; """
CHANGE = "update lockstep_feed.public_orders set {} where _change_set = {}"
EMPTY = "id = null, n = null, _stream = null, _offset = null, _ordinal = null, _batch = null, _change = 'erased'"
BLANK, BLANK_UPDATE = CHANGE.format(EMPTY, 1), CHANGE.format(EMPTY, "2 and _change = 'before'")
INSERTS = CHANGE.format("_change = 'insert'{}", "2 and _change = 'after'")
RELAY = """insert into lockstep.relay (target, topic, transactional_id, began_at, confirmed)
    values ('public.orders', 'sink', 'lockstep.0.orders', 0, 0); """
BY_HAND = (
    "select lockstep.manual_change('public.orders', 'x'); insert into public.orders values ('b', 1, %(s)s, 1, 0, 0); "
)
CALL = """select changes, waiting
    from lockstep.blank_images((select max(erasure_id) from lockstep.erasure), 'public.orders', '{}')"""


def opened(key: str = "a", column: str = "id", of: str = "orders") -> str:
    """Returns the statements that open an erasure of a key."""
    return (SALT + OPEN).format(key=key, column=column, of=of)


# Set 1 inserts a with n = 1. Set 2 updates it to n = 2.
REFUSED = [
    CHANGE.format("n = 3", 1),
    BLANK,
    opened() + BLANK,
    opened() + NAME.format(2, 0) + BLANK,
    opened("b") + NAME.format(1, 0) + BLANK,
    opened("2", "n") + NAME.format(1, 0) + BLANK,
    opened() + NAME.format(1, 0) + CHANGE.format("n = null, _change = 'erased'", 1),
    opened() + NAME.format(1, 0) + CHANGE.format(EMPTY + ", _ordinal_in_set = 5", 1),
    opened() + NAME.format(1, 0) + CHANGE.format(EMPTY + ", _change_set = 2", 1),
    opened() + NAME.format(1, 0) + CHANGE.format("n = null", 1),
    opened("7", "n") + NAME.format(2, 0) + INSERTS.format(""),
    opened("1", "n") + NAME.format(2, 0) + INSERTS.format(", n = 5"),
    opened("1", "n") + NAME.format(2, 0) + CHANGE.format("_change = 'delete'", "2 and _change = 'after'"),
    opened("1", "n") + NAME.format(1, 0) + INSERTS.format(""),
    RELAY + opened() + NAME.format(1, 0) + BLANK,
    "insert into lockstep.pipeline (name) values ('more'); " + opened(of="more") + NAME.format(1, 0) + BLANK,
    BY_HAND + opened("b") + NAME.format(3, 0) + CHANGE.format(EMPTY, 3),
]


@pytest.fixture
def changed(ledger, orders):
    """Updates the one row of the table, and returns its ledger and stream."""
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("select lockstep.manual_change('public.orders', 'x'); update public.orders set n = 2")
    return ledger, orders


@pytest.mark.parametrize("statements", REFUSED, ids=[f"image_stays-{place}" for place in range(len(REFUSED))])
def test_an_image_stays_but_for_an_erasure_of_its_own_key(changed, statements):
    ledger, orders = changed
    with pytest.raises(psycopg2.Error) as refused, transaction(ledger.conn, OWNER) as cur:
        cur.execute(statements, orders)
    assert (refused.value.diag.constraint_name, "image_stays" in str(refused.value)) == ("image_stays", True)


def test_an_erasure_of_the_key_makes_images_blank_and_turns_the_other_image_of_an_update(changed):
    ledger, _ = changed
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(opened("1", "n") + NAME.format(1, 0) + NAME.format(2, 0) + INSERTS.format(""))
        cur.execute(f"{BLANK}; {BLANK_UPDATE}; {DECIDE}")
    assert ledger.ask("select _change_set, _change, id, n from lockstep_feed.public_orders order by 1, 2") == [
        (1, "erased", None, None),
        (2, "erased", None, None),
        (2, "insert", "a", 2),
    ]


@pytest.mark.parametrize("statement", [NAME.format(1, 0), CALL.format("a")], ids=["by name", "by call"])
def test_a_decided_erasure_takes_nothing_more(changed, statement):
    ledger, _ = changed
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(opened() + DECIDE)
    with pytest.raises(psycopg2.Error, match="erased_once"), transaction(ledger.conn, OWNER) as cur:
        cur.execute(statement)


def test_the_committer_blanks_the_key_of_its_erasure_and_no_other(changed):
    ledger, _ = changed
    with pytest.raises(psycopg2.Error, match="image_stays"), transaction(ledger.conn, COMMITTER) as cur:
        cur.execute(opened("7", "n") + CALL.format("1"))
    with transaction(ledger.conn, COMMITTER) as cur:
        cur.execute(opened("1", "n") + CALL.format("1"))
        assert tuple(cur.fetchone()) == (2, 0)
        cur.execute(DECIDE)


def test_what_a_relay_has_not_sent_waits_whatever_the_caller_wants(changed):
    ledger, _ = changed
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(RELAY)
    with transaction(ledger.conn, COMMITTER) as cur:
        cur.execute(opened("1", "n") + CALL.format("1"))
        assert tuple(cur.fetchone()) == (0, 2)
        cur.execute(DECIDE)


def test_no_role_of_a_run_blanks_an_image_past_the_erasure(changed):
    ledger, _ = changed
    for statement in (BLANK, NAME.format(1, 0), "delete from lockstep.blank_change"):
        assert roles_that_may(ledger.conn, statement) == set(), statement
    for role in set(OF_A_RUN) - {COMMITTER}:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege), transaction(ledger.conn, role) as cur:
            cur.execute(CALL.format("a"))
