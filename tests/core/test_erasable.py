"""Tests which pipelines `erase` refuses before it looks at any table."""

from __future__ import annotations

import pytest

from lockstep.core.changes.erasure import erasable_column
from lockstep.core.errors import Refusal
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.definition import Append, Json, Pipeline, Upsert


@pytest.mark.parametrize("target", [Append(Iceberg("web.clicks")), Upsert(Iceberg("web.clicks"), key=("id",))])
def test_a_table_of_the_lake_is_refused_with_what_takes_its_rows_out(target):
    pipeline = Pipeline("clicks", "clicks.v1", Json("id string, n int"), target)
    with pytest.raises(Refusal, match=r"web\.clicks is a table of the lake, and erase does not reach") as refused:
        erasable_column(pipeline, "id")
    assert "lockstep upkeep clicks --lake" in refused.value.next_command
