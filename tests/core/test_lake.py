"""Tests the name of a lake table, and which definitions may have one."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from lockstep import (
    Accumulate,
    Append,
    AtLeastOnce,
    Count,
    Feed,
    History,
    Iceberg,
    Idempotent,
    Json,
    PerPartition,
    Pipeline,
    Postgres,
    Upsert,
)
from lockstep.core.errors import BadDefinition
from lockstep.core.health.ownership import tables_of
from lockstep.core.lake.catalogs import Catalog
from lockstep.core.lake.iceberg import LakeCopy, lake_places
from lockstep.core.pipeline.columns import POSTGRES, Column, staged_column
from lockstep.core.pipeline.recorded import pipeline_of_document

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Target


def pipeline(*targets: Target, **more: Any) -> Pipeline:
    of_one = targets[0] if len(targets) == 1 else targets
    return Pipeline(name="orders", topic="orders.v1", format=Json("order_id string, n int"), target=of_one, **more)


def test_a_lake_table_is_its_name_with_the_catalog_in_front():
    table = Iceberg("sales.orders")
    assert (str(table), table.namespace, table.name) == ("lockstep.sales.orders", "sales", "orders")
    assert repr(table) == "Iceberg('sales.orders')"
    for copy in (deepcopy(table), pickle.loads(pickle.dumps(table))):  # noqa: S301 - one's own
        assert isinstance(copy, Iceberg)
        assert copy == table


@pytest.mark.parametrize("name", ["orders", "a.b.c", "Sales.orders", "sales.", "sales.or ders", "", 7, None])
def test_what_is_no_namespace_and_table_is_refused(name):
    with pytest.raises(BadDefinition, match=r"namespace\.table"):
        Iceberg(name)


def test_copies_of_tables_with_long_names_have_names_of_their_own_that_postgres_takes_whole():
    names = [f"{'s' * 40}.{'t' * 40}{end}" for end in ("", "a", "b")]
    relations = [LakeCopy(name).relation for name in names]
    assert len(set(relations)) == len(names)
    assert {len(relation) for relation in relations} == {63}
    assert LakeCopy("sales.orders").relation == "lockstep.sales.orders"


def test_one_pipeline_fills_the_lake_and_the_database():
    both = pipeline(Append(Iceberg("sales.orders")), Upsert("sales.orders", key=("order_id",)))
    assert lake_places(both.targets) == {0: Iceberg("sales.orders")}
    assert both.document()["target"][0] == {"kind": "Append", "table": "lockstep.sales.orders"}
    again = pipeline_of_document(both.document())
    assert again == both
    assert lake_places(again.targets) == lake_places(both.targets)


def test_a_pipeline_without_the_lake_keeps_its_document():
    assert pipeline_of_document(pipeline(Append("sales.orders")).document()).target.table == "sales.orders"
    assert lake_places(pipeline(Append("sales.orders")).targets) == {}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda t: pipeline(History(t, key=("order_id",))), "only Append"),
        (lambda t: pipeline(Append(t), guarantee=Idempotent()), r"guarantee=PerBatch\(\)"),
        (lambda t: pipeline(Append(t), guarantee=AtLeastOnce()), r"guarantee=PerBatch\(\)"),
        (lambda t: pipeline(Append(t), guarantee=PerPartition()), r"guarantee=PerBatch\(\)"),
        (lambda t: pipeline(Append(t, feed=Feed())), "leave feed out"),
        (lambda t: pipeline(Append(t), Append(t)), "stands there twice"),
    ],
)
def test_a_lake_table_is_refused_where_its_promise_cannot_be_kept(make, reason):
    with pytest.raises(BadDefinition, match=reason):
        make(Iceberg("sales.orders"))


def test_a_table_elsewhere_is_its_name_with_its_catalog_in_front():
    table = Iceberg("web.clicks", catalog="POLARIS")
    assert (str(table), table.namespace, table.name, table.catalog) == (
        "POLARIS.web.clicks",
        "web",
        "clicks",
        "POLARIS",
    )
    assert repr(table) == "Iceberg('web.clicks', catalog='POLARIS')"
    assert Iceberg("web.clicks").catalog is None
    for copy in (deepcopy(table), pickle.loads(pickle.dumps(table))):  # noqa: S301 - one's own
        assert (type(copy), copy) == (Iceberg, table)


def test_a_pipeline_into_a_catalog_elsewhere_has_it_as_its_store():
    made = pipeline(Append(Iceberg("web.clicks", catalog="POLARIS")), guarantee=Idempotent())
    assert made.store == Catalog("POLARIS")
    assert made.store.variable == "LOCKSTEP_CATALOG_POLARIS"
    assert lake_places(made.targets) == {}
    assert made.document()["store"] == {"kind": "Catalog", "name": "POLARIS"}
    again = pipeline_of_document(made.document())
    assert (again, again.target.table.catalog) == (made, "POLARIS")
    (owned,) = tables_of(made)
    assert (owned.store, owned.name) == ("POLARIS", "POLARIS.web.clicks")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda t: pipeline(Append(t)), r"guarantee=Idempotent\(\), AtLeastOnce\(\) or AtMostOnce\(\)"),
        (lambda t: pipeline(Append(t), guarantee=PerPartition()), r"PerPartition\(\) moves results and offsets in one"),
        (lambda t: pipeline(Upsert(t, key=("order_id",)), guarantee=Idempotent()), "only Append"),
        (lambda t: pipeline(Accumulate(t, key=("order_id",), totals=(Count("n"),))), "only Append"),
        (lambda t: pipeline(Append(t, feed=Feed()), guarantee=Idempotent()), "leave feed out"),
        (lambda t: pipeline(Append(t), guarantee=Idempotent(), store=Postgres("WAREHOUSE")), "leave store out"),
        (lambda _: pipeline(Append("web.clicks"), guarantee=Idempotent(), store=Catalog("POLARIS")), "leave store out"),
        (lambda t: pipeline(Append(t), Append(Iceberg("web.clicks")), guarantee=Idempotent()), "catalog|guarantee"),
        (lambda _: Iceberg("web.clicks", catalog="polaris"), "a name in capitals"),
        (lambda _: Iceberg("web.clicks", catalog=""), "a name in capitals"),
    ],
)
def test_a_table_elsewhere_is_refused_where_its_promise_cannot_be_kept(make, reason):
    with pytest.raises(BadDefinition, match=reason):
        make(Iceberg("web.clicks", catalog="POLARIS"))


def test_no_other_target_lies_in_the_schema_of_the_catalog():
    with pytest.raises(BadDefinition, match="lockstep_lake is the ledger's own"):
        Append("lockstep_lake.iceberg_tables")


@pytest.mark.parametrize("type_", [*POSTGRES, "decimal(12,2)", "decimal(38,0)"])
def test_a_staged_column_is_told_by_its_type_in_postgres(type_):
    column = Column("a", type_)
    written = {"timestamptz": "timestamp with time zone"}.get(column.postgres_type, column.postgres_type)
    assert staged_column("a", written) == column
