"""Tests that the core imports nothing but the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import lockstep.core

FILES = sorted(Path(lockstep.core.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_core_imports_the_standard_library_and_itself_only(file):
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    strangers = {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}
    assert all(name.startswith("lockstep.core") for name in strangers), strangers
