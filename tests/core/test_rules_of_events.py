"""Tests the rules E1 to E22 on docs/windows.md and docs/feeds.md: each stands there once, and leads to a test that names it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]
TABLES = {"windows": range(1, 10), "feeds": range(10, 23)}
ROW = re.compile(r"^\| (?P<rule>E\d+) \| [^|]+ \| `(?P<file>\w+\.py)::(?P<test>\w+)` \|$", re.MULTILINE)
PLACE = re.compile(r"^\| rule \| says \| test in `(?P<folder>tests/\w+)` \|$", re.MULTILINE)
CITED = re.compile(r"\bE([1-9]\d?)\b(?=[):,]| and | is | says )")


def rows(page: str) -> list[tuple[str, str, str]]:
    """Returns the rules of a page, each with the file of its test and the test's name."""
    text = (HERE / "docs" / f"{page}.md").read_text(encoding="utf-8")
    (folder,) = PLACE.findall(text)
    return [(rule, f"{folder}/{file}", test) for rule, file, test in ROW.findall(text)]


@pytest.mark.parametrize("page", TABLES)
def test_each_rule_stands_on_its_page_once_and_in_order(page):
    assert [rule for rule, _, _ in rows(page)] == [f"E{n}" for n in TABLES[page]]


@pytest.mark.parametrize(("rule", "file", "test"), [row for page in TABLES for row in rows(page)])
def test_a_rule_leads_to_a_test_that_is_there_and_names_it(rule, file, test):
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert test.startswith(f"test_{rule.lower()}_")


def test_every_rule_that_the_code_cites_is_on_a_page():
    known = {rule.removeprefix("E") for page in TABLES for rule, _, _ in rows(page)}
    folder = HERE / "include" / "lockstep"
    cited = {
        number: str(path.relative_to(folder))
        for path in sorted(each for each in folder.rglob("*") if each.suffix in {".py", ".sql"})
        for number in CITED.findall(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 10, cited
    assert {number: file for number, file in cited.items() if number not in known} == {}
