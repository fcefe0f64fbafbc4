"""Tests that a total that cannot be exact is refused before anything is read."""

from __future__ import annotations

import pytest

from lockstep.core.pipeline.definition import Count, Json, Max, Min, Pipeline, Sum
from lockstep.core.pipeline.targets import Accumulate
from lockstep.core.pipeline.totals import misfits
from lockstep.core.planning.blocked import changed_definition

TYPES = {
    "customer": "string",
    "amount": "decimal(12,2)",
    "weight": "double",
    "share": "float",
    "pieces": "bigint",
    "paid": "boolean",
    "at": "timestamp",
    "raw": "binary",
}


@pytest.mark.parametrize(
    "total",
    [
        Count("n"),
        Count("n", of="raw"),
        Sum("n", of="amount"),
        Sum("n", of="pieces"),
        Min("n", of="weight"),
        Max("n", of="at"),
    ],
)
def test_what_has_one_result_in_any_order_is_allowed(total):
    assert list(misfits(("customer",), (total,), TYPES)) == []


@pytest.mark.parametrize(
    ("total", "why"),
    [
        (Sum("n", of="weight"), "Sum('n'): weight is double, and a sum of floats depends on the order of its terms"),
        (Sum("n", of="share"), "share is float"),
        (Sum("n", of="customer"), "customer is string, which cannot be added"),
        (Sum("n", of="nowhere"), "'nowhere' is no column (customer, amount"),
        (Count("n", of="nowhere"), "'nowhere' is no column"),
        (Min("n", of="paid"), "paid is boolean, which has no least"),
        (Max("n", of="raw"), "raw is binary"),
    ],
)
def test_what_has_not_is_told_with_the_field_and_the_reason(total, why):
    (fault,) = misfits(("customer",), (total,), TYPES)
    assert fault.startswith("target.totals: ")
    assert why in fault


def test_a_key_that_is_no_column_is_told():
    (fault,) = misfits(("client",), (Count("n"),), TYPES)
    assert fault.startswith("target.key: 'client' is no column")


def test_a_total_that_becomes_another_is_refused_for_a_pipeline_that_has_committed():
    def pipeline(total):
        target = Accumulate("public.spend", ("customer",), (total,))
        return Pipeline("spend", "orders.v1", Json("customer string, amount bigint"), target)

    was = pipeline(Min("n", of="amount")).document()
    assert changed_definition(pipeline(Min("n", of="amount")), [was]) is None
    assert "its target was" in changed_definition(pipeline(Max("n", of="amount")), [was]).reason
