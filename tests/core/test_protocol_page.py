"""Tests docs/protocol.md: it defines every cited rule, and names the guard that keeps it and its test."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]
ENGINE = HERE / "include" / "lockstep"
PAGE = (HERE / "docs" / "protocol.md").read_text(encoding="utf-8")
# Held to the migrations by tests/ledger/test_schema.py.
SCHEMA = (ENGINE / "ledger" / "schema.sql").read_text(encoding="utf-8")
TEXTS = {".py", ".sql", ".md", ".pml", ".jinja", ".toml", ".txt", ".yaml"}
# `T12:00` is a time. Hours and minutes before a T leave no word boundary.
CITED = re.compile(r"\bT[1-9]\d?\b(?!:)")
RULE = re.compile(r"^### (?P<id>T\d+)\. (?P<title>.+)\n\n(?P<text>(?:(?!^#).*\n)+)", re.MULTILINE)
RULES = {rule["id"]: rule["text"] for rule in RULE.finditer(PAGE)}
WAIT = re.compile(
    r"^\| [^|]+ \| (?P<value>[\d.]+)(?: s)? \| `(?P<name>[A-Z_]+)` in `(?P<file>[\w/]+\.py)` \|$", re.MULTILINE
)
WAITS = {(wait["file"], wait["name"]): float(wait["value"]) for wait in WAIT.finditer(PAGE)}


def cited() -> dict[str, str]:
    """Returns every rule that a file names, with the first such file."""
    found: dict[str, str] = {}
    for folder in ("include", "docs", "tests", "bench", "dags", "plugins", "spark_jobs"):
        for path in sorted(each for each in (HERE / folder).rglob("*") if each.suffix in TEXTS):
            if path != Path(__file__):
                for rule in CITED.findall(path.read_text(encoding="utf-8")):
                    found.setdefault(rule, str(path.relative_to(HERE)))
    return found


def constraints() -> set[str]:
    """Returns the names under which the ledger refuses.

    These are constraints, triggers, unique indexes, and the names that triggers raise.
    """
    return set(re.findall(r"(?:constraint|trigger|unique index) (\w+) ", SCHEMA)) | set(
        re.findall(r"constraint = '(\w+)'", SCHEMA)
    )


def line_of(rule: str, label: str) -> str:
    (line,) = re.findall(rf"^- {label}: (.+)$", RULES[rule], re.MULTILINE)
    return line


def test_a_time_is_no_rule_and_a_rule_in_brackets_is_one():
    text = "2026-01-01T10:00, T12:00:00Z, T00, P1DT2H, T201, (T4, T16), rule T7."
    assert CITED.findall(text) == ["T4", "T16", "T7"]


def test_every_rule_that_is_cited_has_its_heading():
    assert {rule: file for rule, file in cited().items() if rule not in RULES} == {}
    assert list(RULES) == [f"T{n}" for n in range(1, 20)]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_names_constraints_of_the_ledger_or_the_code_that_keeps_it(rule):
    line = line_of(rule, "Kept by")
    names = re.findall(r"`([\w./]+)`", line)
    assert names
    for name in names:
        assert (ENGINE / name).is_file() if name.endswith((".py", ".txt")) else name in constraints(), name


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_leads_to_tests_that_are_there(rule):
    tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", line_of(rule, "Shown by"))
    assert tests
    for file, name in tests:
        tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{file}::{name}"


@pytest.mark.parametrize(("file", "name"), WAITS)
def test_a_waiting_time_is_what_the_code_waits(file, name):
    value = getattr(import_module("lockstep." + file.removesuffix(".py").replace("/", ".")), name)
    assert WAITS[file, name] == (value.total_seconds() if isinstance(value, timedelta) else value)


def test_no_waiting_time_of_the_ledger_and_the_steps_is_left_out():
    found = {
        (str(path.relative_to(ENGINE)), name)
        for path in [
            *(ENGINE / "steps").rglob("*.py"),
            *(ENGINE / "ledger").rglob("*.py"),
            ENGINE / "adapters/postgres.py",
        ]
        for name in re.findall(r"^(\w*SECONDS\w*) = ", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found
    assert found - WAITS.keys() == set()


@pytest.mark.parametrize("table", ["batch", "attempt"])
def test_the_diagrams_show_every_state_that_the_ledger_knows(table):
    (states,) = re.findall(rf"constraint {table}_state_check check \(state in \(([^)]+)\)\)", SCHEMA)
    diagram = re.search(rf"^### States of (?:a|an) {table}\n(.+?)^#", PAGE, re.MULTILINE | re.DOTALL)
    assert diagram
    assert set(re.findall(r"'(\w+)'", states)) == set(re.findall(r"\[(\w+)\]", diagram[1]))


def test_a_link_to_a_rule_leads_to_its_heading():
    anchors = {
        re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    }
    links = {
        (path.name, anchor)
        for path in [*(HERE / "docs").rglob("*.md"), HERE / "README.md", HERE / "CONTRIBUTING.md"]
        for anchor in re.findall(r"protocol\.md#([\w-]+)\)", path.read_text(encoding="utf-8"))
    }
    assert links
    assert {link for link in links if link[1] not in anchors} == set()
