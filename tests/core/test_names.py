"""Tests that a name that cannot be a folder, a module and two DAG ids is refused.

The refusal proposes a name that can.
"""

from __future__ import annotations

import ast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.names import good_name, refuse_bad_name

BAD = {
    "my-sales": "my_sales",
    "My Sales": "my_sales",
    "2024sales": "p_2024sales",
    "sales.v1": "sales_v1",
    "Zürich": "zurich",
    "class": "class_records",
    "Class": "class_records",
    "orders_history": "orders",
    "_history": "history",
    "__init__": "init",
    "../etc": "etc",
    "": "p_records",
    "東京": "p_records",
    "sales\n": "sales",
    "x" * 64: "x" * 55,
}


@pytest.mark.parametrize("name", BAD, ids=repr)
def test_a_name_that_no_pipeline_can_have_is_refused_with_one_that_it_can(name):
    with pytest.raises(BadDefinition) as caught:
        refuse_bad_name(name)
    assert caught.value.next_command == f"lockstep new {BAD[name]} --topic TOPIC"
    refuse_bad_name(BAD[name])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["orders", "o", "_raw", "match", "json", "history", "orders_v2", "x" * 63])
def test_a_name_that_is_a_module_and_a_dag_id_is_taken(name):
    refuse_bad_name(name)
    ast.parse(f"from pipelines.{name} import {name.upper()}")


@given(st.one_of(st.text(max_size=80), st.from_regex(r"[a-z_]{0,60}(_history){0,3}", fullmatch=True)))
@example("x" * 55 + "_history_history")
@example("0:HISTORY:HISTORY")
@example("p_history")
@example("not_history")
def test_what_is_proposed_is_never_refused(name):
    refuse_bad_name(good_name(name))
