"""Tests that the database takes back nothing that was sent: raw SQL as the owner, without the code's own checks."""

from __future__ import annotations

import psycopg2
import pytest

from lockstep.adapters.postgres import COMMITTER, OWNER, transaction
from lockstep.core.pipeline.definition import Json, Pipeline, Send, Topic
from lockstep.ledger.feed.make import make_feeds
from lockstep.ledger.feed.sends import tables_of_sends
from support.scenes.undone import roles_that_may

CLEAN = Pipeline("orders", "orders.v1", Json("id string, n int"), Send(Topic("clean.v1")))
TABLE = "lockstep_send.clean_v1"
OPEN = f"insert into lockstep.change_set (target, kind, batch_id) values ('{TABLE}', 'batch', %(b)s)"
BY_HAND = f"insert into lockstep.change_set (target, kind, why) values ('{TABLE}', 'manual', 'x')"
NUMBER = "select lockstep.number_changes()"
NET = "select lockstep.net_changes()"
AGAIN = f"insert into {TABLE} (id, n, _stream, _offset, _ordinal, _batch) values ('z', 1, %(s)s, {{}}, {{}}, %(b)s)"
TRIMMED = f"insert into lockstep.trimmed values ('{TABLE}', %(s)s, '{{[2, 5)}}')"
# constraint → what must be refused, by its name. Offsets 0 and 1 are sent, by a row each. %(b)s is a replay of [0, 10).
REFUSED = [
    ("sent_stays", f"{OPEN}; update {TABLE} set n = 2 where _offset = 0; {NUMBER}"),
    ("sent_stays", f"{OPEN}; delete from {TABLE} where _offset = 0; {NUMBER}"),
    ("sent_stays", f"{OPEN}; {AGAIN.format(1, 1)}; {NUMBER}"),
    ("sent_stays", f"{TRIMMED}; {OPEN}; {AGAIN.format(4, 0)}; {NUMBER}"),
    ("sent_stays", f"{BY_HAND}; {AGAIN.format(7, 0)}; {NUMBER}"),
    ("feed_by_one", "update lockstep.feed set sends = false"),
    ("trimmed_stays", f"{TRIMMED}; update lockstep.trimmed set offsets = '{{[2, 4)}}'"),
    ("trimmed_stays", f"{TRIMMED}; delete from lockstep.trimmed"),
    ("only_by_commit", f"delete from {TABLE}"),
    ("only_by_commit", f"{TRIMMED}; update {TABLE} set n = 2"),
]
CASES = [
    pytest.param(name, statement, id=f"{name}-{sum(n == name for n, _ in REFUSED[:place])}")
    for place, (name, statement) in enumerate(REFUSED)
]


@pytest.fixture
def sent(ledger):
    """Sends two records by a live batch. Returns the ids of their stream and of a replay."""
    s = ledger.stream(0)
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(tables_of_sends(cur, CLEAN, [CLEAN.columns]))
        cur.execute("insert into lockstep.target_owner (store, target, pipeline) values ('', %s, 'orders')", (TABLE,))
        make_feeds(cur, CLEAN)
    live = {"s": s, "b": ledger.planned({s: (0, 10)})}
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(f"{OPEN}; {AGAIN.format(0, 0)}; {AGAIN.format(1, 0)}; {NUMBER}", live)
        cur.execute("delete from lockstep.claim")
    return {"s": s, "b": ledger.planned({s: (0, 10)}, lane="replay")}


@pytest.mark.parametrize(("name", "statement"), CASES)
def test_a_constraint_of_a_send_refuses_by_itself(ledger, sent, name, statement):
    with pytest.raises(psycopg2.Error) as refused, transaction(ledger.conn, OWNER) as cur:
        cur.execute(statement, sent)
    assert (refused.value.diag.constraint_name, name in str(refused.value)) == (name, True)


def test_a_record_of_which_nothing_was_sent_may_be_sent_by_a_replay(ledger, sent):
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(f"{OPEN}; {AGAIN.format(5, 0)}; {AGAIN.format(5, 1)}; {NUMBER}", sent)
    assert ledger.ask("select next_number, last_seq from lockstep.feed") == [(4, 2)]


def test_no_role_of_a_run_writes_what_is_trimmed(ledger, sent):
    for statement in (TRIMMED, "delete from lockstep.trimmed", "update lockstep.trimmed set offsets = '{}'"):
        assert roles_that_may(ledger.conn, statement, sent) == set(), statement


def test_the_committer_may_ask_what_a_set_would_take_back(ledger, sent):
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(f"grant select, insert, update, delete on {TABLE} to lockstep_committer")
    with transaction(ledger.conn, COMMITTER) as cur:
        cur.execute(f"select lockstep.open_changes('{TABLE}', %(b)s, null)", sent)
        cur.execute(f"delete from {TABLE} where _offset = 1")
        cur.execute("select u.changed, u.gone, u.again from lockstep.change_set c, lockstep.unsaid(c.change_set_id) u"
                    " where c.seq is null")  # fmt: skip
        assert tuple(cur.fetchone()) == (0, 1, 0)
        ledger.conn.rollback()


REJECT = """insert into lockstep.reject (stream_id, "offset", batch_id, reason)
    select %(s)s, o, %(b)s, 'no' from unnest(array[0, 3, 7]) o"""  # something of offset 0 was sent all the same
KEPT = "select offsets::text from lockstep.trimmed"


def trims(ledger, sent) -> int:
    """Writes rejects of the live batch, and trims what it has sent."""
    with transaction(ledger.conn, OWNER) as cur:
        for table in ("reject", "change_set", "relay"):
            cur.execute(f"alter table lockstep.{table} disable trigger user")
        cur.execute("update lockstep.relay set confirmed = 2")
        cur.execute(REJECT, sent)
        cur.execute("update lockstep.change_set set at = at - interval '8 days'")
        cur.execute(f"select lockstep.trim_feed('{TABLE}', 100)")
        return cur.fetchone()[0]


def test_a_reject_is_not_trimmed_with_the_rows_beside_it(ledger, sent):
    assert trims(ledger, sent) == 2
    assert ledger.ask(KEPT) == [("{[0,3),[4,7),[8,10)}",)]
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("alter table lockstep.change_set enable trigger user")
        cur.execute(f"{OPEN}; {AGAIN.format(3, 0)}; {AGAIN.format(1, 0)}; {AGAIN.format(0, 0)}; {NET}; {NUMBER}", sent)
    assert ledger.ask("select next_number from lockstep.feed") == [(3,)]
    assert ledger.ask(f"select _offset from {TABLE}") == [(3,)]


@pytest.mark.parametrize("with_rejects", [True, False], ids=["rejects may be trimmed", "nothing is new"])
def test_a_replay_that_may_leave_out_a_reject_is_refused_as_before(ledger, sent, with_rejects):
    assert trims(ledger, sent) == 2
    rows = [3, 1] if with_rejects else [1]
    again = "; ".join(AGAIN.format(each, 0) for each in rows)
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("alter table lockstep.change_set enable trigger user")
        cur.execute(f"update lockstep.trimmed set with_rejects = {with_rejects}")
    with pytest.raises(psycopg2.Error, match="1 would be sent again"), transaction(ledger.conn, OWNER) as cur:
        cur.execute(f"{OPEN}; {again}; {NET}; {NUMBER}", sent)


def test_a_reject_is_trimmed_where_a_stream_has_too_many_ranges(ledger, sent):
    many = "select range_agg(int8range(100 + 2 * n, 101 + 2 * n)) from generate_series(1, 9998) n"
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(f"insert into lockstep.trimmed select '{TABLE}', %(s)s, ({many})", sent)
    assert trims(ledger, sent) == 2
    assert ledger.ask("select offsets @> int8range(0, 10), with_rejects from lockstep.trimmed") == [(True, True)]
