"""Tests that the gate reports a mutant that survives, one that no longer applies and one that only breaks."""

from __future__ import annotations

import re

import pytest

from mutants.catalogue import MUTANTS
from mutants.gate import ROOT, planted, survived
from mutants.mutant import MIGRATIONS, Drop, Edit, Mutant, StaleMutantError
from mutants.page import page

RANGE = "tests/core/test_offsets.py::test_a_range_is_never_empty_and_never_below_zero"
RED = (f"{RANGE}[5-5]", f"{RANGE}[5-4]")
HARMLESS = Edit(
    "core/offsets.py", "return self.until_offset - self.from_offset", "return -self.from_offset + self.until_offset"
)
DEFINED = re.compile(
    r"^create (?:or replace )?(function|view) ([a-z_.]+).*?(?:\$\$.*?\$\$;|;\n)", re.DOTALL | re.MULTILINE
)


def judged(home, servers, change, red=RED, others=()) -> str:
    return "\n".join(survived(Mutant("one", "because", (change,), red, others), home / "tree", servers))


def test_a_mutant_that_changes_nothing_survives_and_is_told(tmp_path, servers):
    assert judged(tmp_path, servers, HARMLESS).count("passed") == len(RED)


def test_a_mutant_that_does_not_apply_exactly_once_is_an_error(tmp_path):
    for text in ("no such text", "self"):
        with pytest.raises(StaleMutantError, match="times, not once"):
            planted(tmp_path / text, [Edit("core/offsets.py", text, "")])


def test_a_mutant_that_only_breaks_the_code_is_not_dead(tmp_path, servers):
    broken = Edit("core/offsets.py", "if not 0 <= self.from_offset < self.until_offset:", "if not nowhere:")
    assert "call NameError" in judged(tmp_path, servers, broken)


def test_a_red_test_beside_those_that_were_named_is_told(tmp_path, servers):
    change = Edit(
        "core/offsets.py", "0 <= self.from_offset < self.until_offset", "self.from_offset < self.until_offset"
    )
    said = judged(tmp_path, servers, change, red=(), others=(RANGE,))
    assert "is red, too" in said


def test_a_red_test_that_is_not_there_is_told(tmp_path, servers):
    assert "did not run" in judged(tmp_path, servers, HARMLESS, red=(f"{RANGE}[never]",), others=(RANGE,))


def test_a_mutant_of_the_database_is_not_dead_because_its_text_was_compared(tmp_path, servers):
    dropped = Drop("drop trigger memory_stays on lockstep.reject")
    green = "tests/ledger/test_catalog.py::test_the_file_says_what_the_migrations_make"
    assert f"{green} passed" in judged(tmp_path, servers, dropped, red=(green,))


def test_every_mutant_applies_to_the_code_as_it_stands(tmp_path):
    for mutant in MUTANTS:
        for file in {change.file for change in mutant.changes if isinstance(change, Edit)}:
            copy = tmp_path / "include" / "lockstep" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / "include" / "lockstep" / file).read_bytes())
        for change in mutant.changes:
            if isinstance(change, Edit):
                change.apply(tmp_path)


def test_no_mutant_changes_a_definition_that_a_later_migration_replaces():
    texts = {file.name: file.read_text(encoding="utf-8") for file in sorted((ROOT / MIGRATIONS).glob("*.sql"))}
    last = {found.groups(): name for name, text in texts.items() for found in DEFINED.finditer(text)}
    replaced = []
    for mutant in MUTANTS:
        for change in mutant.changes:
            if isinstance(change, Edit) and change.is_of_the_database:
                name = change.file.rpartition("/")[2]
                at = texts[name].index(change.old)
                its = next(
                    (found for found in DEFINED.finditer(texts[name]) if found.start() <= at < found.end()), None
                )
                if its and last[its.groups()] != name:
                    replaced.append(f"{mutant.name}: {its[2]} stands in {last[its.groups()]}")
    assert replaced == []


def test_the_page_tells_every_mutant_as_it_is():
    assert (ROOT / "docs" / "mutants.md").read_text(encoding="utf-8") == page()


def test_make_test_runs_a_sample_of_the_mutants():
    assert 20 <= sum(not mutant.long for mutant in MUTANTS) <= 30, "each takes seconds: mark further ones long"


def test_a_mutants_name_is_its_own():
    names = [mutant.name for mutant in MUTANTS]
    assert sorted(set(names)) == sorted(names)


def test_each_red_test_of_a_mutant_is_a_function_of_its_file():
    named = {test for mutant in MUTANTS for test in mutant.red}
    assert [test for test in sorted(named) if not is_defined(test)] == []


def is_defined(test: str) -> bool:
    """Returns whether this is the whole id of one test, and its function is in its file."""
    found = re.fullmatch(r"(tests/[\w/]+\.py)::(test_\w+)(\[.*\])?", test, re.DOTALL)
    return bool(found) and f"def {found[2]}(" in (ROOT / found[1]).read_text(encoding="utf-8")
