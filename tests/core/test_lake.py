"""Tests the name of a lake table, and which definitions may have one."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from lockstep import Append, AtLeastOnce, Feed, History, Iceberg, Idempotent, Json, PerPartition, Pipeline, Upsert
from lockstep.core.errors import BadDefinition
from lockstep.core.lake.iceberg import lake_places
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
        (lambda t: pipeline(Upsert(t, key=("order_id",))), "only Append"),
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


def test_no_other_target_lies_in_the_schema_of_the_catalog():
    with pytest.raises(BadDefinition, match="lockstep_lake is the ledger's own"):
        Append("lockstep_lake.iceberg_tables")
