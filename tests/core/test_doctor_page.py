"""Tests that the page about the doctor names everything that it checks."""

from __future__ import annotations

import re
from pathlib import Path

from lockstep.core.health.findings import Check, Severity
from lockstep.core.ledger_rights import EXPECTED_ROLES, OF_A_RUN

PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"
ENGINE = Path(__file__).parents[2] / "include" / "lockstep"
IN_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
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


def test_pages_count_the_roles_as_the_ledger_has_them():
    page, airflow = PAGE.read_text(), PAGE.with_name("airflow.md").read_text()
    every, of_a_run = IN_WORDS[len(EXPECTED_ROLES)], IN_WORDS[len(OF_A_RUN)]

    assert f"one of Lockstep's {every} is missing" in page
    assert f"one of the {of_a_run} of a run" in page
    assert f"and {every} roles without login" in airflow
