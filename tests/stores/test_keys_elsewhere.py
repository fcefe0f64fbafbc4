"""Tests keys in another Postgres: the store compares records and deletions as the ledger's own database does."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
import pytest

from lockstep.context.systems import stores
from lockstep.core.errors import BadData, Refusal
from support.scenes.here import Here
from support.scenes.stores_facts import UPSERT

ORDERED = 'Upsert("public.drill", key=("id",), order_by="n")'


def value(key: str, n: int | None) -> tuple[str, str]:
    return key, json.dumps({"id": key, "n": n})


def asked(statement: str) -> list[tuple]:
    with closing(psycopg2.connect(stores()["WAREHOUSE"])) as conn, conn, conn.cursor() as cur:
        cur.execute(statement)
        return cur.fetchall() if cur.description else []


def keyed() -> dict[str, int]:
    with closing(psycopg2.connect(stores()["WAREHOUSE"])) as conn, conn.cursor() as cur:
        cur.execute("select id, n from public.drill")
        return dict(cur.fetchall())


def test_a_key_that_was_deleted_and_is_born_in_another_partition_is_refused_in_another_store(delivered, produce):
    drill = delivered("Idempotent()", "warehouse", UPSERT, [])
    here = Here(drill)
    produce(drill.topic, [*(value("filler", n) for n in range(10)), value("a", 1)], partition=0)
    here.drain()
    produce(drill.topic, [("a", None)], partition=0)
    here.drain()
    produce(drill.topic, [value("a", 42), value("b", 1)], partition=1)

    with pytest.raises(BadData, match="a key was deleted in one partition and stands in another") as no:
        here.drain()

    assert no.value.values == "the key is ['a']"
    assert keyed() == {"filler": 9}
    here.at.close()


def test_a_key_column_that_may_be_null_is_refused_in_another_store(delivered):
    drill = delivered("Idempotent()", "warehouse", UPSERT, [value("a", 1)])
    asked("alter table public.drill drop constraint drill_pkey; alter table public.drill alter id drop not null")
    asked("create unique index one_id on public.drill (id)")
    here = Here(drill)

    with pytest.raises(Refusal, match=r"key column id of target public\.drill may be null"):
        here.drain()

    here.at.close()


def test_with_order_by_the_highest_value_is_the_row_in_another_store(delivered):
    records = [value("a", 5), value("a", 3), value("b", 1)]
    drill = delivered("Idempotent()", "warehouse", ORDERED, records)
    asked("alter table public.drill add primary key (id)")
    here = Here(drill)
    here.drain()
    assert keyed() == {"a": 5, "b": 1}
    (index,) = asked("select indexdef from pg_indexes where indexname = 'drill_by_offset'")
    assert index[0].endswith("(_stream, _offset)")
    here.at.close()
