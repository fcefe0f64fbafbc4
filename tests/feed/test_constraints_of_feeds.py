"""Tests that the database keeps the promises of a feed by itself: raw SQL as the owner, without the code's own checks."""

from __future__ import annotations

from typing import Any

import psycopg2
import pytest

from lockstep.adapters.postgres import COMMITTER, OWNER, PLANNER, transaction
from support.fakes.ledger_rows import commit_in
from support.oracles.folded import not_folded
from support.scenes.undone import roles_that_may

FEED = """insert into lockstep.feed (target, name, key, keep, began_empty, kept_from)
    values ('{}', '{}', '{{id}}', '{}', true, {})"""
SET = "insert into lockstep.change_set (target, kind, batch_id, stream_id, why) values ('public.orders', {})"
BY_HAND = SET.format("'manual', null, null, 'x'")
OF_BATCH = SET.format("'batch', %(b)s, null, null")
UNGUARDED = "alter table lockstep.change_set disable trigger numbered_once; "
NUMBERED = """insert into lockstep.change_set (target, kind, why, seq, first_number, changes)
    values ('public.orders', 'manual', 'x', {})"""
NUMBER = "update lockstep.change_set set seq = {}, first_number = {}, changes = {} where seq is null"
ROW = "insert into public.orders values ('{}', 1, %(s)s, 1, 0, %(b)s)"
MOVED = """alter table lockstep_feed.public_orders disable trigger image_stays;
    update lockstep_feed.public_orders set _ordinal_in_set = 1 where id = 'b'"""
# constraint → what must be refused, by its name
REFUSED = [
    ("one_name", FEED.format("public_orders.x", "public_orders", "1 day", 0)),
    ("keeps_something", "update lockstep.feed set keep = '0'"),
    ("feed_forward", FEED.format("public.x", "public_x", "1 day", 5)),
    ("kind_says_whose", SET.format("'manual', null, null, null")),
    ("kind_says_whose", SET.format("'batch', null, null, null")),
    ("kind_says_whose", SET.format("'manual', null, %(s)s, 'x'")),
    ("numbered_whole", UNGUARDED + "update lockstep.change_set set changes = null"),
    ("seq_once", UNGUARDED + NUMBERED.format("1, 9, 0")),
    ("number_once", UNGUARDED + NUMBERED.format("9, 0, 1")),
    ("one_set_a_commit", f"{OF_BATCH}; select lockstep.number_changes(); {OF_BATCH}"),
    ("one_open_set", f"{BY_HAND}; {BY_HAND}"),
    ("feed_by_one", "update lockstep.feed set next_number = next_number + 1"),
    ("feed_by_one", "update lockstep.feed set last_seq = last_seq + 1"),
    ("feed_by_one", "update lockstep.feed set last_seq = 0, next_number = 0"),
    ("feed_by_one", "update lockstep.feed set kept_from = 1; update lockstep.feed set kept_from = 0"),
    ("feed_by_one", "update lockstep.feed set key = '{n}'"),
    ("numbered_once", NUMBERED.format("2, 1, 0")),
    ("numbered_once", "update lockstep.change_set set seq = 2"),
    ("numbered_once", f"{BY_HAND}; {NUMBER.format(3, 1, 0)}"),
    ("numbered_once", f"{BY_HAND}; {NUMBER.format(2, 0, 0)}"),
    ("numbered_once", f"{BY_HAND}; {NUMBER.format(2, 1, '0, why = null')}"),
    ("changes_counted", f"{BY_HAND}; {ROW.format('b')}; {NUMBER.format(2, 1, 2)}"),
    ("changes_counted", f"{BY_HAND}; {ROW.format('b')}; {NUMBER.format(2, 1, 0)}"),
    (
        "changes_counted",
        f"{BY_HAND}; {ROW.format('b')}; {MOVED}; {NUMBER.format(2, 1, 1)}",
    ),
    ("change_set_is_numbered", OF_BATCH),
    ("change_set_is_numbered", f"{OF_BATCH}; {NUMBER.format(2, 1, 0)}"),
    ("only_by_commit", ROW.format("b")),
    ("only_by_commit", "update public.orders set n = 2"),
    ("only_by_commit", "delete from public.orders"),
    ("only_by_commit", "truncate public.orders"),
    ("only_by_commit", f"{BY_HAND}; truncate public.orders"),
    ("only_by_commit", f"{OF_BATCH}; select lockstep.number_changes(); {ROW.format('b')}"),
    ("key_stays", f"{BY_HAND}; update public.orders set id = 'z'"),
    ("no_feed", "select lockstep.manual_change('public.other', 'x')"),
    (
        "change_is_known",
        "insert into lockstep_feed.public_orders (_change, _change_set, _ordinal_in_set) values ('odd', 1, 9)",
    ),
]
CASES = [
    pytest.param(name, statement, id=f"{name}-{sum(n == name for n, _ in REFUSED[:place])}")
    for place, (name, statement) in enumerate(REFUSED)
]


@pytest.mark.parametrize(("name", "statement"), CASES)
def test_a_constraint_refuses_by_itself(ledger, orders, name, statement):
    with pytest.raises(psycopg2.Error) as refused, transaction(ledger.conn, OWNER) as cur:
        cur.execute(statement, orders)
    assert (refused.value.diag.constraint_name, name in str(refused.value)) == (name, True)
    assert not_folded(lambda query, *values: ask(ledger, query, *values), "public.orders") == []


def test_a_commit_that_has_not_told_a_feed_is_refused(ledger, orders):
    token = ledger.opened(orders["b"])
    with pytest.raises(psycopg2.Error, match="commit_is_told"), transaction(ledger.conn, OWNER) as cur:
        commit_in(cur, orders["b"], token)
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(OF_BATCH, orders)
        cur.execute("select lockstep.number_changes()")
        commit_in(cur, orders["b"], token)


def test_a_commit_is_not_told_by_the_set_of_another_transaction(ledger, orders):
    token = ledger.opened(orders["b"])
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(OF_BATCH, orders)
        cur.execute("select lockstep.number_changes()")
    with pytest.raises(psycopg2.Error, match="commit_is_told"), transaction(ledger.conn, OWNER) as cur:
        commit_in(cur, orders["b"], token)


def test_a_persons_change_is_announced_with_its_net_effect_and_a_decision(ledger, orders):
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("select lockstep.manual_change('public.orders', 'a wrong amount')")
        cur.execute(ROW.format("b"), orders)
        cur.execute("update public.orders set n = n + 1")
        cur.execute("update public.orders set n = n + 1")
        cur.execute("delete from public.orders where id = 'b'")
    images = "select _change, id, n from lockstep_feed.public_orders where _change_set = 2 order by _change desc"
    assert ledger.ask(images) == [("before", "a", 1), ("after", "a", 3)]
    assert ledger.ask("select kind, why, detail ->> 'target' from lockstep.decision") == [
        ("manual-change", "the first row", "public.orders"),
        ("manual-change", "a wrong amount", "public.orders"),
    ]


def test_no_role_of_a_run_writes_a_feed_past_its_functions(ledger, orders):
    assert orders
    for statement in (
        "update lockstep.feed set keep = '1 day'",
        "delete from lockstep.change_set",
        "insert into lockstep.change_set (target, kind, why) values ('public.orders', 'manual', 'x')",
        "delete from lockstep_feed.public_orders",
        "insert into lockstep_feed.public_orders (_change, _change_set, _ordinal_in_set) values ('insert', 1, 5)",
        "create table lockstep_feed.mine (id int)",
        "select lockstep.number_set(1)",
        "select lockstep.net_set(1)",
    ):
        assert roles_that_may(ledger.conn, statement) == set(), statement


@pytest.mark.parametrize("what", ["disable trigger only_by_commit_update", "drop column n", "add column more int"])
def test_a_table_that_is_not_followed_any_more_gets_no_commit(ledger, orders, what):
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(f"alter table public.orders {what}")
    misses = {"disable": "its changes are not caught", "add": "its column more is not that", "drop": "lost"}[
        what.split()[0]
    ]
    with transaction(ledger.conn, COMMITTER) as cur:
        cur.execute("select lockstep.open_changes('public.orders', %(b)s, null)", orders)
        assert misses in str(cur.fetchone()[0])
    with pytest.raises(psycopg2.Error, match="no_feed"), transaction(ledger.conn, PLANNER) as cur:
        cur.execute("select lockstep.manual_change('public.orders', 'x')")


def ask(ledger, query: str, *values: Any) -> list[tuple]:
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(query, values)
        return [tuple(row) for row in cur.fetchall()]
