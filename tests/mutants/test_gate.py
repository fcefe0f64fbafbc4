"""Tests that every named mutant turns its own tests red, by an assertion, and no others.

The unchanged tree passes the same tests.
"""

from __future__ import annotations

import pytest

from mutants.catalogue import MUTANTS
from mutants.gate import planted, ran, survived

FAST = [mutant for mutant in MUTANTS if not mutant.long]
LONG = [mutant for mutant in MUTANTS if mutant.long]


@pytest.mark.parametrize("mutant", FAST, ids=[m.name for m in FAST])
def test_a_mutant_turns_its_tests_red(servers, tmp_path, mutant):
    assert survived(mutant, tmp_path / "tree", servers) == []


@pytest.mark.long
@pytest.mark.parametrize("mutant", LONG, ids=[m.name for m in LONG])
def test_one_of_the_other_mutants_turns_its_tests_red(servers, tmp_path, mutant):
    assert survived(mutant, tmp_path / "tree", servers) == []


@pytest.mark.long  # `make test` runs these tests on the tree anyway
def test_the_tree_as_it_is_passes_what_mutants_turn_red(servers, tmp_path):
    assert passed(servers, tmp_path / "tree", FAST) == []


@pytest.mark.long
def test_the_tree_as_it_is_passes_what_the_other_mutants_turn_red(servers, tmp_path):
    assert passed(servers, tmp_path / "tree", LONG) == []


def passed(servers, home, mutants) -> list[str]:
    """Returns the red tests that are not green on the unchanged tree, planted and run as a mutant is."""
    tests = sorted({test for mutant in mutants for test in mutant.red})
    found = ran(planted(home, ()), servers, tests, None, own_database=True)["tests"]
    return [test for test in tests if found.get(test, {"outcome": "missing"})["outcome"] != "passed"]
