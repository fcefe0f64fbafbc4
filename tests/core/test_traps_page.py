"""Tests docs/traps.md: every trap has its row, and every row leads to an existing test or decision."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(
    r"^\| (?P<id>[KPAS]\d+b?) \| (?P<wrong>[^|]+) \| (?P<does>[^|]+) \| (?P<shown>[^|]+) \|$", re.MULTILINE
)
ROWS = {row["id"]: row["shown"] for row in ROW.finditer((DOCS / "traps.md").read_text(encoding="utf-8"))}
NUMBERED = {"K": 36, "P": 50, "A": 14, "S": 27}
IDS = [f"{kind}{n}" for kind, last in NUMBERED.items() for n in range(1, last + 1)] + ["A1b"]


def references(shown: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Returns the tests, as (file, name), and the decision records that a row names."""
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", shown), re.findall(r"\((decisions/[\w-]+\.md)\)", shown)


def test_every_trap_has_exactly_one_row():
    text = (DOCS / "traps.md").read_text(encoding="utf-8")
    ids = [line.split("|")[1].strip() for line in text.splitlines() if re.match(r"\| [KPAS]\d", line)]
    assert sorted(ids) == sorted(IDS)
    assert ROWS.keys() == set(IDS)


@pytest.mark.parametrize("trap", IDS)
def test_a_row_leads_to_a_test_or_a_decision_that_is_there(trap):
    tests, decisions = references(ROWS[trap])
    assert tests or decisions
    assert len(tests) + len(decisions) == len(ROWS[trap].split("<br>"))
    for file, name in tests:
        tree = ast.parse((DOCS.parent / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{file}::{name}"
    for decision in decisions:
        assert (DOCS / decision).is_file(), decision
