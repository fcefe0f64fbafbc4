"""Tests that the page about the doctor names everything that it checks."""

from __future__ import annotations

import re
from pathlib import Path

from lockstep.core.health.findings import Check, Severity

PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"
ENGINE = Path(__file__).parents[2] / "include" / "lockstep"
ROW = re.compile(r"^\| (?:`([^`]+)`)? \| (.+) \| ([a-z].*) \|$", re.MULTILINE)


def severities() -> dict[str, set[str]]:
    """Returns the severities that the table gives each check. A row without a name belongs to the check above it."""
    found: dict[str, set[str]] = {}
    name = ""
    for check, _, said in ROW.findall(PAGE.read_text()):
        name = check or name
        found.setdefault(name, set()).update(word for word in map(str, Severity) if word in said)
    return found


def test_the_table_has_a_row_for_every_check_and_for_nothing_else():
    assert set(severities()) == set(map(str, Check))
    assert all(severities().values())


def test_every_check_is_one_that_somebody_makes():
    code = "\n".join(file.read_text() for file in ENGINE.rglob("*.py") if file.name != "findings.py")
    assert [check.name for check in Check if f"Check.{check.name}" not in code] == []
