"""Tests that a transform.py that cannot be used is named once, with the line that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import Append, Json, Pipeline
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.engine.transforms import Transforms

PIPELINE = Pipeline("orders", "orders.v1", Json("id string"), Append("public.orders"))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("\n\nimport nothing_of_this_name\n", "ModuleNotFoundError: No module named 'nothing_of_this_name' (line 3)"),
        ("x = 1\n\n\ndef made():\n    return x / 0\n\n\nmade()\n", "ZeroDivisionError: division by zero (line 5)"),
        ("def transform(records)\n    return records\n", "SyntaxError: expected ':' (transform.py, line 1)"),
    ],
    ids=["a module that is not there", "an error when it is loaded", "no Python"],
)
def test_a_transform_that_fails_names_its_line(tmp_path, source, said):
    folder = PipelineFolder(PIPELINE, tmp_path, source, None, None)
    with pytest.raises(BadDefinition) as refusal:
        Transforms(folder).function(PIPELINE.first)
    assert refusal.value.message == f"orders: transform.py fails: {said}"


def test_a_line_of_another_file_is_not_taken_for_the_transforms(tmp_path):
    folder = PipelineFolder(
        PIPELINE, tmp_path, "import json\njson.loads('{')\n", None, None, transform_file=Path("t.py")
    )
    with pytest.raises(BadDefinition, match=r"t\.py fails: JSONDecodeError: .* \(line 2\)$"):
        Transforms(folder).function(PIPELINE.first)
