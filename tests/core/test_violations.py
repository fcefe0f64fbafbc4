"""Tests that the expectation's own setting decides what follows a violation, else the pipeline's.

The reason is one short line.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from lockstep.core.pipeline.violations import (
    LONGEST_VALUE,
    may_quarantine,
    needs_staging,
    on_violation,
    quarantine_reason,
)

KIND, COLUMN = "expect_column_values_to_be_between", {"column": "amount"}


@pytest.mark.parametrize(
    ("default", "expectation", "answer", "keeps"),
    [
        ("refuse", {}, "refuse", False),
        ("quarantine", {}, "quarantine", True),
        ("refuse", {"meta": {"on_violation": "quarantine"}}, "quarantine", True),
        ("quarantine", {"meta": {"on_violation": "refuse"}}, "refuse", False),
        ("quarantine", {"meta": {"owner": "me"}, "severity": "critical"}, "quarantine", True),
        ("quarantine", {"meta": None, "severity": "warning"}, "quarantine", False),
        ("refuse", {"meta": "nonsense"}, "refuse", False),
    ],
)
def test_an_expectation_may_say_otherwise_and_bytes_are_kept_only_for_one_that_quarantines(
    default, expectation, answer, keeps
):
    assert on_violation(default, expectation) == answer
    assert may_quarantine(default, {"expectations": [expectation]}) is keeps


@pytest.mark.parametrize(
    ("kind", "kwargs", "needs"),
    [
        ("expect_column_values_to_be_between", {"column": "amount"}, False),
        ("expect_column_values_to_not_be_null", {"column": "customer_key"}, False),
        ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "_ordinal"}, False),
        ("expect_compound_columns_to_be_unique", {"column_list": ["id", "_offset"]}, False),
        ("expect_table_row_count_to_be_between", {"min_value": 1}, False),
        ("expect_column_values_to_not_be_null", {"column": "_key"}, True),
        ("expect_column_values_to_not_be_null", {"column": "n", "row_condition": 'col("_timestamp") > 1'}, True),
        ("expect_column_to_exist", {"column": "n", "column_index": 10}, True),
        ("expect_table_columns_to_match_set", {"column_set": ["n"]}, True),
        ("expect_table_row_count_to_equal_other_table", {"other_table_name": "public.orders"}, True),
        ("unexpected_rows_expectation", {"unexpected_rows_query": "select 1"}, True),
    ],
)
def test_what_only_staged_rows_have_is_looked_at_in_staging(kind, kwargs, needs):
    assert needs_staging({"expectations": [{"type": kind, "kwargs": kwargs}]}) is needs


@pytest.mark.parametrize("suite", [None, {}, {"expectations": []}, {"expectations": {}}])
def test_without_an_expectation_no_row_is_staged_for_one(suite):
    assert not needs_staging(suite)


@pytest.mark.parametrize("suite", [None, {}, {"expectations": []}, {"expectations": {}}, {"expectations": ["x"]}])
def test_without_an_expectation_nothing_is_kept(suite):
    assert not may_quarantine("quarantine", suite)


@pytest.mark.parametrize(
    ("kwargs", "row", "shown"),
    [
        (COLUMN, {"amount": Decimal("-5.00")}, "(amount): -5.00"),
        (COLUMN, {"amount": None}, "(amount): null"),
        (COLUMN, {"amount": memoryview(b"\x00\xff")}, "(amount): 00ff"),
        (COLUMN, {"amount": "x" * 200}, f"(amount): {'x' * LONGEST_VALUE}..."),
        (COLUMN, {"amount": datetime(2026, 1, 2, tzinfo=UTC)}, "(amount): 2026-01-02 00:00:00+00:00"),
        ({"column_A": "a", "column_B": "b"}, {"a": 1, "b": 2}, "(a, b): 1, 2"),
        ({"column_list": ["a", "b"]}, {"a": 1, "b": 2}, "(a, b): 1, 2"),
    ],
)
def test_a_reason_names_expectation_column_and_value(kwargs, row, shown):
    assert quarantine_reason(KIND, kwargs, row) == f"expectation {KIND}{shown}"
