"""Tests the transforms of docs/cookbook.md, run as they stand on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RECIPES = {
    name: [block for block in BLOCK.findall(text) if "def transform" in block]
    for name, _, text in (part.partition("\n") for part in PAGE.read_text().split("\n## ")[1:])
}
LONGEST = 10
# recipe: the columns decoded, those of the target, the records, and the target's rows
RUNS: dict[str, tuple[str, str, list[dict[str, Any]], list[tuple]]] = {
    "Make rows of an array": (
        "id string, items string",
        "id text, item text",
        [{"id": "a", "items": '["x", "y"]'}, {"id": "b", "items": "[]"}, {"id": "c", "items": '["x"]'}],
        [("a", "x"), ("a", "y"), ("c", "x")],
    ),
    "Take a nested object apart": (
        "id string, data string",
        "id text, product_id text, author text",
        [
            {"id": "a", "data": {"productId": "p-1", "author": {"displayName": "Zoë 👍"}}},
            {"id": "b", "data": {"productId": "p-2", "author": None}},
            {"id": "c", "data": "gone"},
        ],
        [("a", "p-1", "Zoë 👍"), ("b", "p-2", None), ("c", None, None)],
    ),
    "Filter": (
        "id string, source string",
        "id text",
        [{"id": "a", "source": "web"}, {"id": "b", "source": "load-test"}, {"id": "c"}],
        [("a",), ("c",)],
    ),
    "Join a static table": (
        "id string, code string",
        "id text, country text",
        [{"id": "a", "code": "de"}, {"id": "b", "code": "fr"}, {"id": "c"}],
        [("a", "Germany"), ("b", None), ("c", None)],
    ),
    "Say which offsets a batch has read": (
        "id string",
        "id text, batch_offsets int, batch_ranges text",
        [{"id": "a"}, {"id": "b"}],
        [("a", 2, "TOPIC-0 [0, 2)"), ("b", 2, "TOPIC-0 [0, 2)")],
    ),
    "Say when, without `now()`": ("id string", "id text, seen_at timestamptz", [{"id": "a"}], [("a", "same")]),
}


def test_every_transform_of_the_page_is_run_here():
    assert {name for name, blocks in RECIPES.items() if blocks} == RUNS.keys()


def test_a_recipe_is_no_longer_than_ten_lines_and_is_python():
    for block in BLOCK.findall(PAGE.read_text()):
        assert len(block.splitlines()) <= LONGEST, block
        compile(block, "a recipe", "exec")


def test_every_link_leads_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()):
        assert (PAGE.parent / link).exists(), link


@pytest.mark.long
@pytest.mark.parametrize("recipe", RUNS)
def test_a_recipe_does_what_it_says(pipeline, topic, produce, recipe):
    columns, ddl, records, rows = RUNS[recipe]
    name = topic(partitions=1)
    produce(name, [("k", json.dumps(record)) for record in records])
    (transform,) = RECIPES[recipe]
    loaded = pipeline(name, columns, ddl, transform=transform)
    loaded.run()
    names = ", ".join(column.split()[0] for column in ddl.split(", "))
    if recipe.startswith("Say when"):
        names = "id, case when seen_at = (select min(min_timestamp) from lockstep.result) then 'same' end"
    if recipe.startswith("Say which"):
        names = f"id, batch_offsets, replace(batch_ranges, '{name}', 'TOPIC')"
    assert loaded.ask(f"select {names} from {loaded.name} order by _offset, _ordinal") == rows
