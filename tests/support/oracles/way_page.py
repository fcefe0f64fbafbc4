"""Reads docs/from-run-to-commit.md: the files and functions of the way, and the other files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
ENGINE = ROOT / "include" / "lockstep"
PAGE = ROOT / "docs" / "from-run-to-commit.md"
MOST_FILES, MOST_LINES = 12, 900


def rows(chapter: str) -> list[list[str]]:
    """Returns the cells of a chapter's table, without its head."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {chapter}\n")[1].split("\n## ")[0]
    table = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in table[2:]]


def way(where: str | None = None) -> dict[str, list[str]]:
    """Returns, per file of the way, its functions: of the driver, of a task, or of both."""
    return {
        re.findall(r"`([^`]+)`", file)[0]: re.findall(r"`([^`]+)`", named)
        for file, place, named, _ in rows("The way")
        if where in {None, place}
    }


def beside() -> list[str]:
    """Returns the other files and folders. A folder ends with a slash."""
    return [name for files, _ in rows("Beside the way") for name in re.findall(r"`([^`]+)`", files)]


def functions(file: str) -> dict[str, ast.FunctionDef]:
    """Returns the functions and methods of a file below include/lockstep by their qualified names."""
    tree = ast.parse((ENGINE / file).read_text(encoding="utf-8"))
    found = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    for kind in tree.body:
        if isinstance(kind, ast.ClassDef):
            found |= {f"{kind.name}.{each.name}": each for each in kind.body if isinstance(each, ast.FunctionDef)}
    return found


def lines_of(function: ast.FunctionDef) -> int:
    """Returns the number of its lines, from the first decorator to the end."""
    begin = min([function.lineno, *(each.lineno for each in function.decorator_list)])
    return (function.end_lineno or begin) - begin + 1
