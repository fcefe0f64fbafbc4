"""Tests that a pipeline refuses nonsense at birth, and that the message names the field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.columns import Column, parse_columns
from lockstep.core.pipeline.definition import (
    Accumulate,
    Append,
    AtLeastOnce,
    AtMostOnce,
    Count,
    Files,
    History,
    Idempotent,
    Json,
    Limits,
    Min,
    PerBatch,
    PerPartition,
    Pipeline,
    Postgres,
    Sum,
    Upsert,
    start_of,
)
from lockstep.core.pipeline.stores import connection_of, require_address
from lockstep.core.planning.bounds import AtOffsets

GOOD: dict[str, Any] = {
    "name": "orders",
    "topic": "orders.v1",
    "format": Json("id string"),
    "target": Append("public.orders"),
}

VERSIONS = GOOD | {"target": History("public.a", key=("id",))}
KEYED = GOOD | {"target": Upsert("public.orders", key=("id",))}


@pytest.mark.parametrize(
    ("nonsense", "named"),
    [
        (lambda: Pipeline(**GOOD | {"name": "Orders"}), "name"),
        (lambda: Pipeline(**GOOD | {"name": "a" * 64}), "name"),
        (lambda: Pipeline(**GOOD | {"topic": "a topic"}), "topic"),
        (lambda: Pipeline(**GOOD | {"topic": ".."}), "topic"),
        (lambda: Pipeline(**GOOD | {"format": "json"}), "format"),
        (lambda: Pipeline(**GOOD | {"target": "public.orders"}), "target"),
        (lambda: Pipeline(**GOOD | {"target": ()}), "target"),
        (lambda: Pipeline(**GOOD | {"target": (Append("public.a"), "public.b")}), "target"),
        (lambda: Pipeline(**GOOD | {"target": (Append("public.a"), Upsert("public.a", ("id",)))}), "public.a"),
        (lambda: Append("public.a", transform="no name"), "target.transform"),
        (lambda: History("public.a", key=()), "target.key is empty"),
        (lambda: History("public.a", key="id"), "target.key must be a tuple"),  # type: ignore[arg-type]
        (lambda: History("public.a", key=("valid_from",)), "the column 'valid_from' is reserved: Lockstep fills it"),
        (lambda: History("public.a", key=("id",), order_by=""), "'' is not a column name"),
        (lambda: Pipeline(**VERSIONS, guarantee=Idempotent()), "a version ends when a later one comes, in one"),
        (lambda: Pipeline(**VERSIONS, guarantee=AtLeastOnce(), store=Files("/a")), "a version ends when a later one"),
        (lambda: Pipeline(**VERSIONS, store=Postgres("WAREHOUSE")), "a version ends when a later one comes"),
        (lambda: Pipeline(**GOOD | {"guarantee": "exactly_once"}), "guarantee"),
        (
            lambda: Pipeline(**GOOD | {"target": Accumulate("a.b", ("id",), (Count("n"),))}, guarantee=PerPartition()),
            "takes Append, History or Upsert",
        ),
        (lambda: Pipeline(**GOOD, max_reject_share=1.5), "max_reject_share"),
        (lambda: Pipeline(**GOOD, on_violation="ignore"), "on_violation"),
        (lambda: Pipeline(**GOOD, alarm="soon"), "alarm is 'soon': it must be a duration above zero, as 90s, 15m"),
        (lambda: Pipeline(**GOOD, alarm=""), "alarm is ''"),
        (lambda: Pipeline(**GOOD, alarm="0m"), "alarm is '0m'"),
        (lambda: Pipeline(**GOOD, alarm="5 minutes"), "alarm is '5 minutes'"),
        (lambda: Pipeline(**GOOD, alarm="-5m"), "alarm is '-5m'"),
        (lambda: Pipeline(**GOOD, alarm="5m\n"), "alarm is"),
        (lambda: Pipeline(**GOOD, alarm="1m1h"), "alarm is '1m1h'"),
        (lambda: Pipeline(**GOOD, alarm="٣m"), "alarm is"),
        (lambda: Pipeline(**GOOD, alarm="9" * 400 + "s"), "alarm is '9"),
        (lambda: Pipeline(**GOOD, alarm=300), "alarm is '300'"),  # type: ignore[arg-type]
        (lambda: Pipeline(**GOOD, alarm=timedelta(minutes=5)), "alarm is 'datetime.timedelta"),  # type: ignore[arg-type]
        (lambda: Pipeline(**GOOD, store="WAREHOUSE"), "store"),  # type: ignore[arg-type]
        (lambda: Pipeline(**GOOD, store=Postgres("WAREHOUSE")), "no one transaction spans two stores"),
        (lambda: Pipeline(**GOOD, store=Files("/a"), guarantee=PerBatch()), "no one transaction spans two stores"),
        (lambda: Pipeline(**KEYED, store=Files("/a"), guarantee=Idempotent()), "a file that is written stays as it is"),
        (lambda: Pipeline(**KEYED, guarantee=AtLeastOnce()), "without asking for a key"),
        (lambda: Pipeline(**KEYED, guarantee=AtMostOnce()), "without asking for a key"),
        (lambda: Postgres("warehouse"), "store"),
        (lambda: Postgres("postgresql://u:secret@h/d"), "store"),
        (lambda: Postgres("FILES"), "store"),
        (lambda: Files(""), "store"),
        (lambda: Files("../elsewhere"), "store"),
        (lambda: Pipeline(**GOOD, start="yesterday"), "start"),
        (lambda: Limits(records=0), "limits.records"),
        (lambda: Limits(seconds=-1), "limits.seconds"),
        (lambda: Limits(records=True), "limits.records"),
        (lambda: Append("orders"), "target.table"),
        (lambda: Append('public."x"'), "target.table"),
        (lambda: Append("lockstep.coverage"), "ledger"),
        (lambda: Upsert("public.orders", key="id"), "target.key"),  # type: ignore[arg-type]
        (lambda: Upsert("public.orders", key=()), "target.key"),
        (lambda: Upsert("public.orders", key=("drop table",)), "drop table"),
        (lambda: Accumulate("spend", ("id",), (Count("n"),)), "target.table"),
        (lambda: Accumulate("public.spend", (), (Count("n"),)), "target.key"),
        (lambda: Accumulate("public.spend", ("id",), ()), "target.totals"),
        (lambda: Accumulate("public.spend", ("id",), Count("n")), "target.totals"),  # type: ignore[arg-type]
        (lambda: Accumulate("public.spend", ("id",), ("n",)), "no Count, Sum, Min or Max"),  # type: ignore[arg-type]
        (lambda: Accumulate("public.spend", ("id",), (Count("n"), Sum("n", of="a"))), "'n' is there twice"),
        (lambda: Accumulate("public.spend", ("id",), (Count("id"),)), "'id' is there twice"),
        (lambda: Accumulate("public.spend", ("id",), (Count("_batch"),)), "'_batch' is reserved"),
        (lambda: Sum("a; drop", of="a"), "a; drop"),
        (lambda: Min("a", of="A"), r"Min\('a'\): 'A'"),
        (lambda: Json("id string", key="no"), "format.key"),
        (lambda: Json("id varchar"), "id"),
        (lambda: Json("id string, id int"), "id"),
        (lambda: Json("_offset bigint"), "_offset"),
        (lambda: Json("id string, xmin int"), "column 'xmin' is a system column of Postgres, which every table has"),
        (lambda: Accumulate("public.spend", ("id",), (Count("ctid"),)), "the column 'ctid' is a system column"),
        (lambda: Json("id"), "id"),
        (lambda: Json("amount decimal(2,3)"), "amount"),
        (lambda: Json("amount decimal(39,2)"), "amount"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(nonsense, named):
    with pytest.raises(BadDefinition, match=named):
        nonsense()


def test_a_schema_reads_as_columns_whatever_its_spaces():
    assert parse_columns("id STRING,  amount decimal( 12 , 2 ) ") == (
        Column("id", "string"),
        Column("amount", "decimal(12,2)"),
    )
    assert Column("amount", "decimal(12,2)").postgres_type == "numeric(12,2)"
    assert Column("at", "timestamp").postgres_type == "timestamptz"


def test_the_ledger_is_told_which_kind_each_total_is():
    target = Accumulate("public.orders", ("id",), (Count("n"), Sum("a", of="b")))
    totals = Pipeline(**GOOD | {"target": target}).document()["target"]["totals"]
    assert totals == [{"kind": "Count", "name": "n", "of": None}, {"kind": "Sum", "name": "a", "of": "b"}]


def test_an_alarm_is_kept_in_the_document_and_none_keeps_the_document_as_it_was():
    assert Pipeline(**GOOD, alarm="1h30m").document()["alarm"] == "1h30m"
    assert "alarm" not in Pipeline(**GOOD).document()


@pytest.mark.parametrize(
    ("schedule", "alarm", "after", "reason"),
    [
        ("*/5 * * * *", None, timedelta(minutes=10), "two schedules"),
        ("*/5 * * * *", "1h30m", timedelta(minutes=90), "the alarm wins, be it later"),
        ("@daily", "90s", timedelta(seconds=90), "or earlier"),
        (None, "2d", timedelta(days=2), "no schedule is needed"),
        (None, None, None, "nothing says when a record is late"),
        ("@continuous", None, None, "nor does this"),
    ],
)
def test_a_pipeline_is_late_after_two_schedules_or_its_alarm(schedule, alarm, after, reason):
    assert Pipeline(**GOOD, schedule=schedule, alarm=alarm).behind_after == after, reason


def test_a_start_names_offsets_by_partition_and_its_document_is_json():
    begun = Pipeline(**GOOD, start={0: 123, 1: 0})
    assert start_of(begun.start) == AtOffsets({0: 123, 1: 0})
    assert begun.document()["start"] == {"0": 123, "1": 0}


def test_a_start_without_a_zone_is_utc():
    assert start_of("2026-05-01T10:00:00") == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert start_of("2026-05-01T12:00:00+02:00") == datetime(2026, 5, 1, 10, tzinfo=UTC)


def test_a_tombstone_deletes_only_where_the_kafka_key_is_known_and_no_column_orders():
    upsert = GOOD | {"target": Upsert("public.orders", key=("id",))}
    assert not Pipeline(**upsert).takes_tombstones
    assert Pipeline(**upsert | {"format": Json("id string", key="id")}).takes_tombstones
    ordered = {
        "format": Json("id string, n int", key="id"),
        "target": Upsert("public.orders", key=("id",), order_by="n"),
    }
    assert not Pipeline(**upsert | ordered).takes_tombstones


def test_the_document_of_one_target_says_what_it_always_said():
    alone, in_a_tuple = (Pipeline(**GOOD | {"target": target}) for target in (GOOD["target"], (GOOD["target"],)))
    assert alone.document() == in_a_tuple.document()
    assert alone.document()["target"] == {"kind": "Append", "table": "public.orders"}
    assert set(alone.document()) == {
        *("name", "topic", "format", "target", "start", "limits", "schedule", "owner", "guarantee", "max_reject_share"),
    }


def test_several_targets_stand_in_the_document_in_their_order():
    targets = (Append("public.lines", transform="lines"), Upsert("public.heads", ("id",)))
    document = Pipeline(**GOOD | {"target": targets}, nondeterministic=True).document()
    assert document["target"] == [
        {"kind": "Append", "table": "public.lines", "transform": "lines"},
        {"kind": "Upsert", "table": "public.heads", "key": ("id",), "order_by": None},
    ]
    assert document["nondeterministic"] is True


def test_a_tombstone_reaches_every_target_that_is_keyed_by_the_kafka_key():
    heads, newest, by_customer = Upsert("a.a", ("id",)), Upsert("a.b", ("id",)), Upsert("a.c", ("customer",))
    given = GOOD | {"format": Json("id string, customer string", key="id")}
    assert Pipeline(**given | {"target": (Append("a.d"), heads, by_customer, newest)}).tombstone_targets == (
        heads,
        newest,
    )
    assert not Pipeline(**given | {"target": (Append("a.d"), by_customer)}).takes_tombstones
    ordered = Upsert("a.e", ("id",), order_by="customer")
    assert not Pipeline(**given | {"target": (heads, ordered)}).takes_tombstones


@pytest.mark.parametrize("guarantee", [Idempotent(), AtLeastOnce(), AtMostOnce()])
@pytest.mark.parametrize("store", [None, Postgres("WAREHOUSE"), Files("/results")])
def test_results_that_move_apart_from_the_offsets_may_live_anywhere(guarantee, store):
    document = Pipeline(**GOOD, guarantee=guarantee, store=store).document()

    assert document["guarantee"] == {"kind": type(guarantee).__name__}
    assert document.get("store", {}).get("kind") == (type(store).__name__ if store else None)


@pytest.mark.parametrize(
    ("store", "variable", "connection"),
    [
        (Postgres("WAREHOUSE"), "LOCKSTEP_STORE_WAREHOUSE", "lockstep_store_warehouse"),
        (Files("invoices"), "LOCKSTEP_STORE_FILES", "lockstep_store_files"),
    ],
)
def test_a_store_that_nobody_has_given_an_address_is_refused_with_its_variable(store, variable, connection):
    require_address("orders", store, {variable.removeprefix("LOCKSTEP_STORE_"): "somewhere"})
    assert connection_of(store) == connection

    with pytest.raises(Refusal) as refused:
        require_address("orders", store, {"OTHER": "somewhere"})

    assert f"{variable} is not set" in refused.value.message
    assert connection in refused.value.next_command


def test_an_absolute_folder_and_the_ledgers_own_database_need_no_address():
    require_address("orders", Files("/results"), {})
    require_address("orders", None, {})
