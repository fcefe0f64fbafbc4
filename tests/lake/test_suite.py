"""Tests that a suite judges the rows of a lake table before they are its files."""

from __future__ import annotations

import json

import pytest

from lake.conftest import ALONE, InLake, InProcess
from lockstep.adapters.folders import load

BELOW_40 = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "n", "max_value": 39},
    "severity": "critical",
    "meta": {"on_violation": "quarantine"},
}


@pytest.mark.parametrize("kind", [InLake, InProcess])
def test_a_suite_judges_the_rows_of_a_lake_table(made_lake, kind):
    lake = made_lake(kind, ALONE.replace("limits=", "max_reject_share=1.0, limits="))
    suite = {"name": "drill", "expectations": [BELOW_40]}
    (load("drill").path / "expectations.json").write_text(json.dumps(suite))

    lake.drain()

    assert sorted(row[-1] for row in lake.rows()) == list(range(40))
    assert lake.drill.ask("select count(*), min(reason) from lockstep.reject") == [
        (20, "expectation expect_column_values_to_be_between(n): 40")
    ]
