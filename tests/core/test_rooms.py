"""Keeps the rooms small: few files each, with one sentence that says what they hold, and no long file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "include" / "lockstep"
ROOMS = sorted({file.parent for file in ENGINE.rglob("*.py")})
MOST_FILES = 15
MOST_LINES = 250


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ENGINE.parent)))
def test_a_room_has_few_files_and_says_what_it_holds(room):
    assert len(list(room.glob("*.py"))) <= MOST_FILES
    assert ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))


def test_no_file_is_long():
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for folder in (ENGINE, ROOT / "include" / "pipelines", ROOT / "dags", ROOT / "plugins", ROOT / "spark_jobs")
        for file in folder.rglob("*.py")
    }
    assert {file: lines for file, lines in lengths.items() if lines > MOST_LINES} == {}
