"""Tests that a plain JSON append enters the functions that the page about it lists, and nothing beside that is unnamed."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from lockstep.cli.app import main
from support.oracles.way_page import ENGINE, beside, functions, way


@pytest.fixture
def entered(drill, monkeypatch):
    """Runs `lockstep run drill` in this process. Returns, per file, the functions of ours that any thread entered."""
    for name, value in {"DSN": drill.dsn, "KAFKA": drill.kafka, "PIPELINES": str(drill.home)}.items():
        monkeypatch.setenv(f"LOCKSTEP_{name}", value)
    monkeypatch.setattr(sys, "argv", ["lockstep", "run", "drill"])
    found: dict[str, set[str]] = {}

    def note(frame, event, _):
        code, caller = frame.f_code, frame.f_back
        is_import = caller is not None and caller.f_code.co_name == "<module>"
        if event == "call" and not is_import and code.co_filename.startswith(str(ENGINE)):
            found.setdefault(str(Path(code.co_filename).relative_to(ENGINE)), set()).add(code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert ended.value.code == 0
    assert drill.ask("select count(*) from public.drill") == [(150,)]
    return {file: names & functions(file).keys() for file, names in found.items() if names & functions(file).keys()}


def test_the_way_is_what_a_run_enters(entered):
    named = {file: set(names) for file, names in way().items()}

    assert {file: entered[file] for file in named} == named


def test_whatever_else_a_run_enters_stands_beside_the_way(entered):
    others = entered.keys() - way().keys()
    names = beside()

    of = {
        file: [name for name in names if file == name or (name.endswith("/") and file.startswith(name))]
        for file in others
    }

    assert {file: found for file, found in of.items() if len(found) != 1} == {}
    assert set(names) - {found[0] for found in of.values()} == set()
