"""Tests that the database shows no row before its commit and hides none behind it: raw SQL, without the code's checks."""

from __future__ import annotations

import os
import threading
from contextlib import closing

import psycopg2
import pytest
from psycopg2 import errors, sql

from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.ledger.admin.shown_view import Q
from support.fakes.ledger_rows import LedgerRows, commit_in
from support.scenes.undone import roles_that_may, undone

ROWS = """create table public.t_rows (n int, _stream int4 not null, _offset int8 not null, _ordinal int4 not null,
    _batch int8 not null, primary key (_stream, _offset, _ordinal));
    create table public.plain_rows (like public.t_rows)"""
HIDE = "insert into lockstep.hidden_batch (batch_id, rows_table) values (%({batch})s, 'public.{table}_rows'); "
SHOW = "delete from lockstep.hidden_batch where batch_id = %({batch})s; "
LAND = """insert into lockstep.landed (batch_id, token, stream_id, offsets, rows, rows_digest, shape_id)
    values (%({b})s, {t}, %({s})s, '[{offsets})', {rows}, 0, (select min(shape_id) from lockstep.shape)); """
SHAPE = "insert into lockstep.shape (hash, target, columns) values ('h', 'public.t', '[]'); "
ROW = "insert into public.t_rows values (1, %({s})s, {offset}, 0, %({b})s); "
OWN = "insert into lockstep.target_owner (store, target, pipeline) values ('{store}', 'public.{table}', 'orders'); "


def hide(batch: str = "b", table: str = "t") -> str:
    return HIDE.format(batch=batch, table=table)


LOWER = "update lockstep.landed set {what} where (batch_id, token, stream_id) = (%(b)s, %(t)s, %(s)s); "


def land(b: str = "b", t: str = "%(t)s", s: str = "s", rows: int = 1, offsets: str = "0, 10") -> str:
    return LAND.format(b=b, t=t, s=s, rows=rows, offsets=offsets)


# constraint → what must be refused, by its name. Batch b is planned and t its attempt, over [0, 10) of the streams s and o.
# d is committed, p a preview. x is abandoned and still hidden. `commit` commits b, each stream with one row.
REFUSED = [
    ("hidden_is_planned", hide("d")),
    ("hidden_is_planned", hide("p")),
    ("hidden_is_planned", hide("x_other")),
    ("hidden_by_view", hide(table="plain")),
    ("hidden_by_view", hide(table="nowhere")),
    ("hidden_by_view", "alter view public.t rename to u; " + hide()),
    ("hidden_stays", hide() + "update lockstep.hidden_batch set batch_id = %(x_other)s where batch_id = %(b)s"),
    ("shown_with_commit", hide() + SHOW.format(batch="b")),
    ("shown_with_commit", SHOW.format(batch="x")),
    ("shown_by_commit", hide() + "commit"),
    ("landed_is_hidden", land()),
    ("newest_attempt", hide() + land(t="%(t)s - 1")),
    ("newest_attempt", land("d", "%(dt)s")),
    ("newest_attempt", land("x", "%(xt)s")),
    ("landed_once", hide() + land() + land(rows=2)),
    ("landed_once", hide() + land(offsets="0, 6") + land(offsets="5, 10")),
    ("landed_within", hide() + land(offsets="5, 11")),
    ("landed_within", hide() + land(offsets="5, 5")),
    ("landed_counts", hide() + land(rows=-1)),
    ("landed_whole", hide() + land() + SHOW.format(batch="b") + "commit"),
    ("landed_whole", hide() + land() + land(s="o", rows=2) + SHOW.format(batch="b") + "commit"),
    ("landed_shrinks", hide() + land() + LOWER.format(what="rows = 2")),
    ("landed_shrinks", hide() + land() + LOWER.format(what="stream_id = %(o)s")),
    ("landed_shrinks", hide() + land() + SHOW.format(batch="b") + LOWER.format(what="rows = 0")),
    (
        "newest_attempt",
        hide()
        + land()
        + "update lockstep.batch set token = token + 1 where batch_id = %(b)s; "
        + LOWER.format(what="rows = 0"),
    ),
    (
        "landed_whole",
        hide() + land(offsets="0, 4") + land(rows=0, offsets="5, 10") + land(s="o") + SHOW.format(batch="b") + "commit",
    ),
    ("owned_through_view", OWN.format(store="", table="t_rows")),
]
CASES = [
    pytest.param(name, statement, id=f"{name}-{sum(n == name for n, _ in REFUSED[:place])}")
    for place, (name, statement) in enumerate(REFUSED)
]
PASSING = {
    "whole": hide() + land() + land(s="o") + SHOW.format(batch="b") + "commit",
    "whole, in pieces": hide()
    + land(offsets="0, 4")
    + land(rows=0, offsets="4, 10")
    + land(s="o")
    + SHOW.format(batch="b")
    + "commit",
    "whole, without a record that was put aside": hide()
    + land(rows=2)
    + LOWER.format(what="rows = 1")
    + land(s="o")
    + SHOW.format(batch="b")
    + "commit",
    "staged behind an attempt that was hidden": hide() + SHOW.format(batch="b") + "commit",
    "put back": hide() + SHOW.format(batch="b") + hide(),
    "over and empty": "delete from public.t_rows where _batch = %(x)s; " + SHOW.format(batch="x"),
    "over and without its table": "drop table public.t_rows cascade; " + SHOW.format(batch="x"),
    "a name alike": OWN.format(store="", table="plain_rows") + OWN.format(store="far", table="t_rows"),
}


@pytest.fixture(scope="module")
def behind(servers):
    """Returns the ledger with a view before public.t_rows, and batches in each state. Tests take back what they do."""
    with servers.database(f"behind_{os.getpid()}") as dsn, closing(connect(dsn)) as conn:
        ledger = LedgerRows(conn)
        s, o = ledger.stream(0), ledger.stream(1)
        with transaction(conn, OWNER) as cur:
            cur.execute(ROWS)
            names = {
                "view": sql.SQL("public.t"),
                "rows_table": sql.SQL("public.t_rows"),
                "columns": sql.SQL("t.*"),
                "options": sql.SQL(""),
            }
            cur.execute(sql.SQL(Q["draw"]).format(**names))
            cur.execute(SHAPE)
        far = ledger.stream(2)
        d, dt = ledger.done({far: (0, 10)})
        x = ledger.planned({far: (10, 20)})
        xt = ledger.opened(x)
        ledger.ask(hide("x") + ROW.format(b="x", s="far", offset=15) + "select 1", x=x, far=far)
        ledger.ask(
            "delete from lockstep.claim; update lockstep.batch set state = 'abandoned', closed_at = now() "
            "where batch_id = %(x)s returning 1", x=x)  # fmt: skip
        p = ledger.planned({far: (0, 10)}, lane="replay")
        ledger.ask("update lockstep.request set preview = true returning 1")
        other = ledger.planned({far: (10, 20)})
        ledger.ask(
            "delete from lockstep.claim where batch_id = %(x)s; update lockstep.batch set state = 'abandoned', "
            "closed_at = now() where batch_id = %(x)s returning 1", x=other)  # fmt: skip
        b = ledger.planned({s: (0, 10), o: (0, 10)})
        t = ledger.opened(b)
        known = {
            "s": s,
            "o": o,
            "far": far,
            "b": b,
            "t": t,
            "d": d,
            "dt": dt,
            "x": x,
            "xt": xt,
            "p": p,
            "x_other": other,
        }
        yield dsn, ledger, known


def done(cur, statement: str, known: dict[str, int]) -> None:
    """Runs the statement, and the commit of `b` behind it if it asks for that."""
    cur.execute(statement.removesuffix("commit"), known)
    if statement.endswith("commit"):
        commit_in(cur, known["b"], known["t"], delivered=1)


@pytest.mark.parametrize(("name", "statement"), CASES)
def test_a_constraint_of_hidden_rows_refuses_by_itself(behind, name, statement):
    _, ledger, known = behind
    with pytest.raises(psycopg2.Error) as refused, undone(ledger.conn, OWNER) as cur:
        done(cur, statement, known)
    assert (refused.value.diag.constraint_name, name in str(refused.value)) == (name, True)


@pytest.mark.parametrize("statement", PASSING.values(), ids=PASSING)
def test_what_keeps_the_promise_passes(behind, statement):
    _, ledger, known = behind
    passed = False
    with undone(ledger.conn, OWNER) as cur:
        done(cur, statement, known)
        cur.execute("set constraints all immediate")
        passed = True
    assert passed


def test_each_role_does_its_own_part_alone(behind):
    _, ledger, known = behind
    for statement, roles in (
        (hide(), {"lockstep_stager"}),
        (SHOW.format(batch="b"), {"lockstep_committer"}),
        ("insert into lockstep.landed select * from lockstep.landed", {"lockstep_partition"}),
        ("update lockstep.hidden_batch set since = now()", set()),
        ("update lockstep.landed set rows = 1, rows_digest = 1", {"lockstep_partition"}),
        ("update lockstep.landed set token = 1", set()),
        ("delete from lockstep.landed", set()),
    ):
        assert roles_that_may(ledger.conn, statement, known) == roles, statement


@pytest.mark.parametrize("is_task_first", [True, False], ids=["the task", "the opening"])
def test_a_task_lands_before_a_newer_attempt_is_opened_or_never(behind, is_task_first):
    dsn, ledger, _ = behind
    stream = ledger.stream(4 + is_task_first)
    batch = ledger.planned({stream: (0, 10)}, lane="fill")
    known = {"s": stream, "b": batch, "t": ledger.opened(batch)}
    ledger.ask(hide() + "select 1", **known)
    landing = ROW.format(b="b", s="s", offset=3) + land()
    opening = "update lockstep.batch set token = token + 1 where batch_id = %(b)s"
    its, others = (landing, opening) if is_task_first else (opening, landing)
    refused: list[str | None] = []
    with closing(connect(dsn)) as first, closing(connect(dsn)) as second:
        for conn in (first, second):
            conn.cursor().execute("set role lockstep_owner")
        first.cursor().execute(its, known)

        def follow() -> None:
            try:
                second.cursor().execute(others, known)
            except errors.CheckViolation as error:
                refused.append(error.diag.constraint_name)

        thread = threading.Thread(target=follow)
        thread.start()
        thread.join(0.5)
        assert thread.is_alive(), "nobody waited"
        first.commit()
        thread.join(10)
    assert refused == ([] if is_task_first else ["newest_attempt"])
