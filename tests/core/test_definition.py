"""A pipeline refuses nonsense at birth, and the message names the field."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lockstep.core.columns import Column, parse_columns
from lockstep.core.definition import Append, Json, Limits, PerPartition, Pipeline, Upsert, start_of
from lockstep.core.errors import BadDefinition

GOOD = {"name": "orders", "topic": "orders.v1", "format": Json("id string"), "target": Append("public.orders")}


class Sums(Append):
    """A target that needs the whole batch in one transaction."""


@pytest.mark.parametrize(
    ("nonsense", "named"),
    [
        (lambda: Pipeline(**GOOD | {"name": "Orders"}), "name"),
        (lambda: Pipeline(**GOOD | {"name": "a" * 64}), "name"),
        (lambda: Pipeline(**GOOD | {"topic": "a topic"}), "topic"),
        (lambda: Pipeline(**GOOD | {"topic": ".."}), "topic"),
        (lambda: Pipeline(**GOOD | {"format": "json"}), "format"),
        (lambda: Pipeline(**GOOD | {"target": "public.orders"}), "target"),
        (lambda: Pipeline(**GOOD | {"guarantee": "exactly_once"}), "guarantee"),
        (
            lambda: Pipeline(**GOOD | {"target": Sums("public.sums")}, guarantee=PerPartition()),
            "takes Append or Upsert",
        ),
        (lambda: Pipeline(**GOOD, max_reject_share=1.5), "max_reject_share"),
        (lambda: Pipeline(**GOOD, start="yesterday"), "start"),
        (lambda: Limits(records=0), "limits.records"),
        (lambda: Limits(seconds=-1), "limits.seconds"),
        (lambda: Limits(records=True), "limits.records"),
        (lambda: Append("orders"), "target.table"),
        (lambda: Append('public."x"'), "target.table"),
        (lambda: Append("lockstep.coverage"), "ledger"),
        (lambda: Upsert("public.orders", key="id"), "target.key"),
        (lambda: Upsert("public.orders", key=()), "target.key"),
        (lambda: Upsert("public.orders", key=("drop table",)), "drop table"),
        (lambda: Json("id string", key="no"), "format.key"),
        (lambda: Json("id varchar"), "id"),
        (lambda: Json("id string, id int"), "id"),
        (lambda: Json("_offset bigint"), "_offset"),
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
