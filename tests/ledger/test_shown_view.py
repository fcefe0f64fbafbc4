"""Tests how Postgres reads the view before hidden rows: by parallel workers, and with the answer of the reader's snapshot."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.postgres import OWNER, READER, snapshot, transaction
from lockstep.core.errors import Refusal
from lockstep.core.health.ledger_findings import target_findings
from lockstep.core.pipeline.definition import Append, Json, PerBatch, Pipeline
from lockstep.ledger.admin.facts import target_facts
from lockstep.ledger.admin.shown_view import draw_view

ORDERS = Pipeline(
    name="orders",
    topic="orders",
    format=Json("n int"),
    target=Append("public.orders"),
    guarantee=PerBatch(),
)
FILLED = """create table public.orders_rows (_batch int8 {null}, _offset int8 not null, _stream int4 not null,
    _ordinal int4 not null, n int, primary key (_stream, _offset, _ordinal));
insert into public.orders_rows select 1 + i / {each}, i, i % 3, 0, i from generate_series(0, 2999) i"""
OLD = """create or replace view public.orders as select t._batch, t._offset, t._stream, t._ordinal, t.n
from public.orders_rows t where t._batch <> all (array(select h.batch_id from lockstep.hidden_batch h))"""
GRANTED = """grant select on public.orders to lockstep_reader;
grant select, insert, update, delete on public.orders to lockstep_committer"""
SMALL = """set local min_parallel_table_scan_size = 0; set local parallel_setup_cost = 0; set local parallel_tuple_cost = 0"""
TOTALS = {
    "count": "select count(*) from {}",
    "sum": "select count(*), sum(n), min(_batch), max(_batch) from {}",
    "group by": "select _stream, count(*), sum(n) from {} group by _stream order by 1",
}
LOOK = "select n from public.orders where _stream = {} and _offset = {}"
MANY = 10_000  # hidden batches, more than a ledger has after years without `reap`


@pytest.fixture
def orders(conn, postgres):
    """Yields `orders(null=..., each=...)`, which makes a filled table, and a superuser's cursor."""
    with closing(psycopg2.connect(postgres, dbname=conn.info.dbname)) as superuser, superuser.cursor() as cur:
        superuser.autocommit = True
        cur.execute("set session_replication_role = replica")  # batches are hidden that nobody plans

        def make(null: str = "not null", each: int = 100):
            cur.execute("set role lockstep_targets;" + FILLED.format(null=null, each=each) + "; reset role")
            cur.execute("analyze public.orders_rows")
            return cur

        yield make


def draw(conn) -> None:
    with transaction(conn, OWNER) as cur:
        draw_view(cur, ORDERS)
        cur.execute(GRANTED)


def hide(cur, batches) -> None:
    cur.execute("delete from lockstep.hidden_batch")
    cur.execute("insert into lockstep.hidden_batch select unnest(%s::int8[]), 'public.orders_rows'", ([*batches],))


def plan_of(cur, query: str) -> str:
    cur.execute(f"explain (format json) {query}")
    return json.dumps(cur.fetchone()[0])


def rows_of(cur, query: str) -> list[tuple]:
    cur.execute(query)
    return [tuple(row) for row in cur.fetchall()]


@pytest.mark.parametrize("each", [100, 5_000], ids=["many batches", "one batch"])
def test_workers_add_up_the_view_whatever_is_hidden(conn, orders, each):
    superuser = orders(each=each)
    draw(conn)
    last = 1 + 2999 // each
    for batches in ((), (last,), range(1, last + 1, 3), range(last + 1, last + 1 + MANY), range(1, MANY)):
        hide(superuser, batches)
        with transaction(conn, READER) as cur:
            cur.execute(SMALL)
            for what, query in TOTALS.items():
                plan = plan_of(cur, query.format("public.orders"))
                shapes = (f'"Partial Mode": "{mode}"' in plan for mode in ("Partial", "Finalize"))
                assert (*shapes, "hashed SubPlan" in plan) == (True, True, True), (what, plan)
                shown = (
                    f"(select * from public.orders_rows where not _batch = any ('{{{','.join(map(str, batches))}}}')) x"
                )
                assert rows_of(cur, query.format("public.orders")) == rows_of(superuser, query.format(shown)), what


@pytest.mark.parametrize("is_prepared", [False, True], ids=["planned each time", "a generic plan"])
def test_a_look_by_key_goes_by_the_index(conn, orders, is_prepared):
    superuser = orders()
    draw(conn)
    with transaction(conn, READER) as cur:
        look = LOOK
        if is_prepared:
            cur.execute("set local plan_cache_mode = force_generic_plan")
            cur.execute("deallocate all; prepare looked (int4, int8) as " + LOOK.format("$1", "$2"))
            look = "execute looked ({}, {})"
        plan = plan_of(cur, look.format(1, 100))
        assert ('"Node Type": "Index Scan"' in plan, "hashed SubPlan" in plan) == (True, True), plan
        hide(superuser, ())
        assert rows_of(cur, look.format(1, 100)) == [(100,)]
        hide(superuser, (2, *range(100, MANY)))
        assert rows_of(cur, look.format(1, 100)) == []
        assert rows_of(cur, look.format(2, 200)) == [(200,)]


def test_workers_read_with_the_readers_snapshot(conn, orders):
    superuser = orders()
    draw(conn)
    hide(superuser, (7,))
    query = TOTALS["sum"].format("public.orders")
    with snapshot(conn, READER) as cur:
        cur.execute(SMALL)
        before = rows_of(cur, query)
        hide(superuser, (8, 9))
        assert rows_of(cur, query) == before
        assert "Partial" in plan_of(cur, query)
    assert before[0][0] == 2_900
    with transaction(conn, READER) as cur:
        assert rows_of(cur, query)[0][0] == 2_800


def test_a_view_of_the_older_form_is_named_and_drawn_again_below_what_hangs_on_it(conn, orders):
    superuser = orders()
    hide(superuser, (3,))
    draw(conn)
    with transaction(conn, OWNER) as cur:
        cur.execute(OLD)
    superuser.execute(
        "create view public.mine as select _batch, n from public.orders; grant select on public.mine to public;"
        " alter view public.orders set (security_barrier)"
    )
    mine = "select count(*), sum((_batch = 3)::int) from public.mine"

    def found() -> list[tuple[str, str, str]]:
        with transaction(conn, READER) as cur:
            assert rows_of(cur, mine) == [(2_900, 0)]
            told = target_findings("orders", target_facts(cur, ORDERS))
            return [(str(each.severity), each.subject, each.remedy) for each in told if each]

    assert found() == [("warning", "view public.orders", "lockstep migrate orders")]
    draw(conn)
    assert found() == []
    superuser.execute("select reloptions from pg_class where oid = 'public.orders'::regclass")
    assert superuser.fetchone() == (["security_barrier=true"],)
    with transaction(conn, READER) as cur:
        cur.execute(SMALL)
        assert "Partial" in plan_of(cur, mine)


def test_a_table_whose_rows_may_have_no_batch_gets_no_view(conn, orders):
    """Nothing would be known of such a row: it would come and go with what others hide."""
    superuser = orders(null="")
    with (
        pytest.raises(Refusal, match=r"orders: public\.orders_rows\._batch may be null") as refused,
        transaction(conn, OWNER) as cur,
    ):
        draw_view(cur, ORDERS)
    mend, again = refused.value.next_command.split(", then ")
    assert again == "lockstep migrate orders"
    superuser.execute(mend)
    draw(conn)
    assert rows_of(superuser, "select count(*) from public.orders") == [(3_000,)]
