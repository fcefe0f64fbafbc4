"""Tests that the expectation's own setting decides what follows a violation, else the pipeline's.

The reason is one short line.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from lockstep.core.pipeline.violations import LONGEST_VALUE, may_quarantine, on_violation, quarantine_reason

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
