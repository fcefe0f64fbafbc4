"""Tests the copy of a pipeline: its source and DDL with other names, and the offsets that it cannot read."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.core.changes.clone import (
    copied_ddl,
    copied_source,
    copied_tables,
    copy_of,
    gone,
    out_of_reach,
)
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.offsets import Bounds, Stream, TopicPartition, TopicView
from lockstep.core.pipeline.definition import Append, Files, Idempotent, Json, Pipeline, Upsert

ORDERS = Pipeline("orders", "orders", Json("orders string", key="orders"), Upsert("public.orders", ("orders",)))
TABLES: dict[str, Any] = {"public.orders": "public.next"}


@pytest.mark.parametrize(
    ("targets", "tables"),
    [
        (Append("public.orders"), {"public.orders": "public.next"}),
        (Append("shop.rows"), {"shop.rows": "shop.next"}),
        (
            (Append("public.orders"), Append("shop.lines", transform="lines")),
            {"public.orders": "public.next", "shop.lines": "shop.next_lines"},
        ),
        (Append(Iceberg("sales.rows")), {"lockstep.sales.rows": "lockstep.sales.next"}),
        (
            (
                Append(Iceberg("sales.orders")),
                Append("public.orders"),
                Append(Iceberg("sales.lines"), transform="lines"),
            ),
            {
                "lockstep.sales.orders": "lockstep.sales.next",
                "public.orders": "public.next",
                "lockstep.sales.lines": "lockstep.sales.next_lines",
            },
        ),
    ],
    ids=["of its name", "of another name", "several", "in the lake", "in both"],
)
def test_each_table_has_a_copy_of_its_own(targets, tables):
    was = Pipeline("orders", "t", Json("id string"), targets)
    assert copied_tables(was, "next") == tables
    assert [target.table for target in copy_of(was, "next").targets] == list(tables.values())


def test_files_lie_in_a_folder_of_the_copys_name_and_need_no_other_table():
    files = Pipeline("orders", "t", Json("id string"), Append("files.o"), guarantee=Idempotent(), store=Files("o"))
    assert (copied_tables(files, "next"), copy_of(files, "next").target) == ({}, Append("files.o"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('Pipeline(name="orders", topic="orders")', 'Pipeline(name="next", topic="orders")'),
        ("Pipeline('orders', 'orders')", "Pipeline(\"next\", 'orders')"),
        ('lockstep.Pipeline(name="orders", start="latest")', 'lockstep.Pipeline(name="next", start="earliest")'),
        ('Ä = 1; Pipeline(name="orders")', 'Ä = 1; Pipeline(name="next")'),
        ('T = Upsert("public.orders", ("orders",))', 'T = Upsert("public.next", ("orders",))'),
        ('T = History("public.orders", key=("orders",))', 'T = History("public.next", key=("orders",))'),
        ('T = ("public."\n    "orders")\nN = 1', 'T = ("public.next")\nN = 1'),
        ('Count("orders"), Suite(name="orders")', 'Count("orders"), Suite(name="orders")'),
        ('f"public.orders"  # public.orders', 'f"public.orders"  # public.orders'),
    ],
    ids=[
        "only the name",
        "by place",
        "the start",
        "bytes before it",
        "a table",
        "a history",
        "over lines",
        "no name of a pipeline",
        "computed",
    ],
)
def test_only_texts_that_differ_are_replaced(before, after):
    was = Pipeline("orders", "orders", Json("id string"), Append("public.orders"), start="latest")
    assert copied_source(before.encode(), was, copy_of(was, "next")).decode() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('Append(Iceberg("web.orders", catalog="POLARIS"))', 'Append(Iceberg("web.next", catalog="POLARIS"))'),
        ('lockstep.Iceberg("web.orders", "POLARIS")', 'lockstep.Iceberg("web.next", "POLARIS")'),
        ('Iceberg(table="web.orders", catalog="POLARIS")', 'Iceberg(table="web.next", catalog="POLARIS")'),
        ('Iceberg("web.orders"), "web.orders"', 'Iceberg("web.orders"), "web.orders"'),
    ],
    ids=["by name", "by place", "both by name", "another catalog"],
)
def test_a_table_of_a_lake_is_replaced_where_it_is_named_as_one(before, after):
    there = Append(Iceberg("web.orders", catalog="POLARIS"))
    was = Pipeline("orders", "orders", Json("id string"), there, guarantee=Idempotent())
    assert copied_source(before.encode(), was, copy_of(was, "next")).decode() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("create table public.orders (orders int)", "create table public.next (orders int)"),
        ('alter table "public"."orders" add x int', 'alter table "public"."next" add x int'),
        ("comment on column PUBLIC.orders.id is ''", "comment on column public.next.id is ''"),
        ("create table public.orders_old (x int)", "create table public.orders_old (x int)"),
        ("create index orders_at on public.orders (at)", "create index next_at on public.next (at)"),
        (
            'create unique index if not exists "by_at" on public.orders (at)',
            'create unique index if not exists "next_by_at" on public.next (at)',
        ),
        ("create index on public.orders (at)", "create index on public.next (at)"),
        ("(id text constraint orders_pkey primary key)", "(id text constraint next_pkey primary key)"),
        ("(n int constraint positive check (n > 0))", "(n int constraint positive check (n > 0))"),
    ],
    ids=[
        "a table",
        "in quotes",
        "in capitals",
        "a longer name",
        "an index of its name",
        "another index",
        "an index without a name",
        "a key with a name",
        "a check",
    ],
)
def test_the_ddl_of_a_copy_names_its_own_table_and_indexes(before, after):
    assert copied_ddl(before, TABLES) == after
    assert out_of_reach(after, TABLES) is None


@pytest.mark.parametrize(
    ("ddl", "fault"),
    [
        ("alter table orders add column x int;", "names orders without its schema"),
        ('create index x on only "orders" (n);', "names orders without its schema"),
        ("grant select on orders to web;", "names orders without its schema"),
        ("create or replace view public.v as select 1", "also makes the view public.v, which is not its table's alone"),
        (
            "create function public.f() returns trigger",
            "also makes the function public.f, which is not its table's alone",
        ),
        ("create table public.next (id text); -- from orders, create view v", None),
    ],
    ids=["a table", "in quotes", "a grant", "a view", "a function", "a comment"],
)
def test_ddl_that_would_reach_the_original_is_named(ddl, fault):
    assert out_of_reach(ddl, TABLES) == fault


def stream(number: int, partition: int, begin: int, position: int, *, topic_id: str = "T", incarnation: int = 0):
    at = TopicPartition("orders", partition)
    return Stream(number, at, "C", topic_id, incarnation, number, begin, position)


VIEW = TopicView("C", "orders", "T", {0: Bounds(30, 90), 1: Bounds(0, 90)})


@pytest.mark.parametrize(
    ("streams", "told"),
    [
        ([stream(1, 1, 0, 80)], []),
        ([stream(1, 0, 0, 80)], ["orders-0: offsets [0, 30) were deleted from the log"]),
        ([stream(1, 0, 0, 20)], ["orders-0: offsets [0, 20) were deleted from the log"]),
        ([stream(1, 0, 40, 80)], []),
        ([stream(1, 0, 0, 10), stream(2, 0, 10, 80)], ["orders-0: offsets [0, 30) were deleted from the log"]),
        (
            [stream(1, 0, 20, 80), stream(2, 2, 0, 5)],
            [
                "orders-0: offsets [20, 30) were deleted from the log",
                "orders-2: offsets [0, 5) were deleted from the log",
            ],
        ),
        (
            [stream(1, 1, 0, 7, topic_id="OLD"), stream(2, 1, 0, 80, incarnation=1)],
            ["orders-1: offsets [0, 7) are of an older log, topic id OLD"],
        ),
        (
            [stream(1, 0, 0, 80), stream(2, 0, 50, 85, incarnation=1)],
            [
                "orders-0: offsets [0, 30) were deleted from the log",
                "orders-0: offsets [50, 80) are of an older log, topic id T",
            ],
        ),
        (
            [stream(1, 1, 0, 7, topic_id="OLD"), stream(2, 1, 7, 9, topic_id="OLD")],
            ["orders-1: offsets [0, 9) are of an older log, topic id OLD"],
        ),
    ],
    ids=[
        "whole",
        "retention",
        "behind the position",
        "began later",
        "growth joins",
        "a partition that is gone",
        "a topic made again",
        "a truncation",
        "growth of an older log",
    ],
)
def test_offsets_that_a_copy_cannot_read_are_told_by_partition(streams, told):
    assert [str(each) for each in gone(streams, VIEW)] == told
