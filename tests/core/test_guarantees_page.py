"""Tests that the quotes of docs/guarantees.md stand in the code to the letter, and that everything it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lockstep

ENGINE = Path(lockstep.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(?:python|sql)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
QUOTED = [block for block in BLOCKS if not block.startswith("Pipeline(")]
SOURCES = {path: path.read_text(encoding="utf-8") for kind in ("*.py", "*.sql") for path in ENGINE.rglob(kind)}


@pytest.mark.parametrize("block", QUOTED, ids=lambda block: block.strip().splitlines()[0][:40])
def test_each_quoted_block_stands_in_one_file_of_the_code(block):
    assert len([path for path, text in SOURCES.items() if block in text]) == 1


def test_each_guarantee_has_a_quoted_block():
    assert len(QUOTED) == 7


def test_each_file_and_constraint_that_is_named_is_there():
    files = re.findall(r"`((?:steps|targets)/[\w/]+\.\w+)`", PAGE)
    assert files
    assert [name for name in files if not (ENGINE / name).is_file()] == []
    migrations = "\n".join(text for path, text in SOURCES.items() if path.parent.name == "migrations")
    assert all(f"trigger {name} " in migrations for name in ("results_first", "offsets_first"))
