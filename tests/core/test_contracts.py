"""Tests that no import contract has an exception."""

from __future__ import annotations

import tomllib
from pathlib import Path


def test_no_contract_has_an_exception():
    given = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = given["tool"]["importlinter"]["contracts"]

    assert len(contracts) >= 9
    assert {each["name"]: each["ignore_imports"] for each in contracts if "ignore_imports" in each} == {}
