"""Tests that one list of expectations decides for `check` and for runs."""

from __future__ import annotations

import json

import pytest

from lockstep.adapters.folders import load_from
from lockstep.core.errors import BadDefinition

DEFINITION = """from lockstep import Append, Json, Pipeline
PIPELINE = Pipeline("shop", "t", Json("id string"), Append("public.shop"))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "__init__.py").write_text(DEFINITION)

    def make(type_: str, **kwargs: str):
        suite = {"name": "s", "expectations": [{"type": type_, "kwargs": kwargs}]}
        (tmp_path / "expectations.json").write_text(json.dumps(suite))
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("type_", "kwargs"),
    [
        ("unexpected_rows_expectation", {"unexpected_rows_query": "select nextval('lockstep.token_seq')"}),
        ("expect_query_results_to_match_comparison", {"base_query": "select 1", "comparison_query": "select 2"}),
        ("expect_table_row_count_to_equal_other_table", {"other_table_name": "lockstep.batch"}),
        ("ExpectColumnValuesToBeNull", {}),
    ],
)
def test_what_is_sql_or_no_expectation_is_loaded_by_nobody(folder, type_, kwargs):
    with pytest.raises(BadDefinition, match=rf"expectations\[0\].type: '{type_}' is no expectation"):
        load_from(folder(type_, **kwargs), "shop")


def test_an_expectation_is_loaded(folder):
    found = load_from(folder("expect_column_values_to_not_be_null", column="id"), "shop")
    assert found.expectations is not None
