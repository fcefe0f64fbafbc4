"""Tests that output to a file or a pipe stays on one line each, however long, so that grep finds it."""

from __future__ import annotations

import pytest

from lockstep.cli.looks.doctoring import _say
from lockstep.cli.output import say_table
from lockstep.core.health.findings import Check, DoctorReport, Finding, Severity
from support.scenes.command_line import at_a_terminal, without_styles

LONG = " ".join(f"word{number}" for number in range(60))
FOUND = DoctorReport(
    (Finding(Severity.WARNING, Check.RETENTION_MS, "topic orders.v1", LONG, LONG, "lockstep doctor"),), passed=3
)
TIME = "2026-05-01T12:00:00Z"


def said(capsys) -> list[str]:
    return without_styles(capsys.readouterr().out).splitlines()


@pytest.mark.parametrize("columns", [None, "20"])
def test_a_piped_row_is_one_line_whatever_the_environment_says(capsys, monkeypatch, columns):
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    say_table(["check", "at", "rows>"], [[LONG, TIME, 5], ["x" * 3_000, TIME, 17]])
    head, *rows = said(capsys)
    assert head.split() == ["check", "at", "rows"]
    assert [row.split()[-2:] for row in rows] == [[TIME, "5"], [TIME, "17"]]
    assert rows[0].startswith(LONG)
    assert rows[1].startswith("x" * 3_000)


def test_a_piped_finding_is_one_line_with_its_reason_on_another(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    _say(FOUND)
    lines = said(capsys)
    assert lines[0] == f"warning  topic orders.v1  {Check.RETENTION_MS}: {LONG}"
    assert lines[1] == f"  why: {LONG}"


def test_on_a_terminal_rows_are_folded_to_its_width(capsys, monkeypatch):
    at_a_terminal(monkeypatch, columns=40)
    say_table(["check", "at"], [[LONG, TIME]])
    assert 1 < max(len(line) for line in said(capsys)) <= 40


def test_on_a_terminal_findings_are_folded_to_its_width(capsys, monkeypatch):
    at_a_terminal(monkeypatch, columns=40)
    _say(FOUND)
    assert 1 < max(len(line) for line in said(capsys)) <= 40
