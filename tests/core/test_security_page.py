"""Tests that every test which docs/security.md names exists, and that each hole of the attack has one, or a decision."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
FILES = sorted(set(re.findall(r"tests/[\w/]+\.py", PAGE)))
# A name without a file belongs to the file that was named last before it.
NAMED = re.findall(r"`(?:(tests/[\w/]+\.py)(?:::)?)?(test_\w+)?`", PAGE)


def named_with_files() -> list[tuple[str, str]]:
    found, file = [], ""
    for its, test in NAMED:
        file = its or file
        if test:
            found.append((file, test))
    return found


def test_the_page_names_tests():
    assert len(named_with_files()) > 40


@pytest.mark.parametrize("file", FILES)
def test_a_named_file_is_there(file):
    assert (ROOT / file).is_file()


@pytest.mark.parametrize(("file", "test"), named_with_files())
def test_a_named_test_is_there(file, test):
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("number", range(1, 18))
def test_each_hole_of_the_attack_has_a_test_or_a_decision(number):
    (row,) = re.findall(rf"^\| H{number} \| .+ \| (.+) \|$", PAGE, re.MULTILINE)
    assert re.search(r"`(tests/[\w/]+\.py::)?test_\w+`", row) or "](decisions/" in row
