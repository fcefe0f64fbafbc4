"""Tests rows with documents of JSON that no `jsonb` holds, or that Python does not read. They are shown and compared."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest
from psycopg2 import sql

from lockstep.adapters.postgres import OWNER, READER, snapshot, transaction
from lockstep.core.pipeline.definition import Feed, Json, Pipeline, Topic, Upsert
from lockstep.ledger.exact_rows import with_texts
from lockstep.ledger.feed.blank import left_in_feeds
from lockstep.ledger.feed.make import make_feeds
from lockstep.ledger.feed.reading import read_changes, read_snapshot
from lockstep.ledger.feed.verify import feed_checks
from lockstep.ledger.views.tracing import outcome_of_record
from lockstep.steps.feed.values import comparable
from lockstep.targets.proof.difference import compare_rows

ORDERS = Pipeline(
    "orders", "orders.v1", Json("id string, doc string"), Upsert("public.orders", key=("id",), feed=Feed("2 days"))
)
TABLE = """create table public.orders (id text primary key, doc {}, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null); alter table public.orders owner to lockstep_targets"""
DEEP, LONG = "[" * 3_000 + "]" * 3_000, "[" + "1" * 5_000 + "]"
DOCUMENTS = [
    ("json", '{"a": "\\u0000"}', {"a": "\0"}),
    ("json", '{"a": 1e999999999}', {"a": "1E+999999999"}),
    ("json", '{"b": 1.50, "a": 0.1}', {"b": 1.5, "a": 0.1}),
    ("json", "null", None),
    *((type_, text, text) for type_ in ("json", "jsonb") for text in (DEEP, LONG)),
]


@pytest.fixture(params=DOCUMENTS, ids=lambda each: f"{each[0]} {each[1][:12]}")
def document(request, ledger):
    """Makes a table with a feed, and a row with the document that was another before. Returns what it says."""
    type_, text, said = request.param
    s = ledger.stream(0)
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(TABLE.format(type_))
        cur.execute("grant select on public.orders to lockstep_reader")
        cur.execute(
            "insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.orders', 'orders')"
        )
        make_feeds(cur, ORDERS)
    for values in (["1"], [text]):
        with transaction(ledger.conn, OWNER) as cur:
            cur.execute("select lockstep.manual_change('public.orders', 'a test')")
            cur.execute(
                "insert into public.orders values ('a', %s, %s, 0, 0, 0) on conflict (id) do update set doc = excluded.doc",
                (*values, s),
            )
    return said


def test_a_feed_tells_and_checks_such_a_document(document, ledger):
    with snapshot(ledger.conn, READER) as cur:
        changes = read_changes(cur, "orders", "public.orders", 0, 10)["changes"]
        rows = read_snapshot(cur, "orders", ORDERS.first)["rows"]
        checks = feed_checks(cur, "orders", ORDERS.first)
        left = left_in_feeds(cur, ORDERS, "nobody", {"public.orders": 0})
    assert [(each["change"], each["after"]["doc"]) for each in changes] == [("insert", 1), ("update", document)]
    assert [row["doc"] for row in rows] == [document]
    assert [(check.name, check.detail) for check in checks if not check.ok] == []
    assert len(checks) == 3
    assert left == []


def test_verify_finds_such_a_document_that_was_changed_past_the_feed(document, ledger, postgres):
    assert document != 2
    ((name,),) = ledger.ask("select current_database()")
    with closing(psycopg2.connect(postgres, dbname=name)) as conn, conn, conn.cursor() as cur:
        cur.execute("set session_replication_role = replica")
        cur.execute("update public.orders set doc = '2'")
    with transaction(ledger.conn, READER) as cur:
        wrong = [check.name for check in feed_checks(cur, "orders", ORDERS.first) if not check.ok]
    assert wrong == ["the table is its feed folded"]


def test_a_preview_shows_such_a_document(document, ledger):
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("create temp table before_0 on commit drop as select * from public.orders")
        cur.execute("update before_0 set doc = '1'")
        cur.execute("insert into before_0 select 'gone', doc, _stream, 1, 0, 0 from before_0")
        here = sql.SQL(
            "(select t.* from public.orders t union all select 'new', doc, _stream, 2, 0, 0 from public.orders)"
        )
        parts = {
            "before": sql.Identifier("before_0"),
            "rows_after": with_texts(cur, sql.Identifier("public", "orders"), here),
            "same_key": sql.SQL("b.id = a.id"),
        }
        found = compare_rows(cur, parts, {}, 5)
    assert [found[name] for name in ("added", "changed", "removed", "unchanged")] == [1, 1, 1, 0]
    shown = [
        (each["kind"], *(row and row["doc"] for row in (each["before"], each["after"]))) for each in found["samples"]
    ]
    assert shown == [("added", None, document), ("changed", 1, document), ("removed", 1, None)]


def test_lineage_shows_such_a_document(document, ledger):
    with transaction(ledger.conn, READER) as cur:
        (row,) = outcome_of_record(cur, ORDERS, 0, 0)["rows"]
    assert row["doc"] == ({"a": "1e999999999"} if document == {"a": "1E+999999999"} else document)


def test_a_sent_value_that_is_nested_too_deep_is_compared_as_it_is():
    value = f'{{"doc":{DEEP}}}'.encode()
    assert comparable(value, Topic("orders.v2"), "orders", lambda: None) == value
