"""Docstrings of the engine are sentences: none begins with a word that makes it a riddle."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

INCLUDE = Path(__file__).parents[2] / "include"
RIDDLES = {"What", "Whether", "How", "Where", "Which", "Who", "Whose", "Why", "Whatever", "Whoever"}
WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.parametrize(
    "room", sorted(path for path in (INCLUDE / "lockstep").iterdir() if path.is_dir()), ids=lambda path: path.name
)
def test_no_docstring_begins_with_a_question_word(room):
    found = []
    for file in sorted(room.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            said = ast.get_docstring(node) if isinstance(node, WITH_DOCSTRINGS) else None
            if said and said.split()[0].strip(",.:;") in RIDDLES:
                found.append(f"{file.relative_to(INCLUDE)}: {said.splitlines()[0]}")
    assert found == []
