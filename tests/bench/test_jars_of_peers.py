"""Tests that each set of jars that a bench asks for is one that the bench can resolve."""

from __future__ import annotations

import re
from pathlib import Path

from peers.field import NEEDS
from peers.jars import IVY

BENCH = Path(__file__).parents[2] / "bench"


def test_every_set_of_jars_that_a_bench_asks_for_is_in_its_ivy_file():
    known = set(re.findall(r'<conf name="(\w+)"', IVY.read_text()))
    asked = {name for path in BENCH.rglob("*.py") for name in re.findall(r'missing\(\("(\w+)",\)\)', path.read_text())}
    assert asked
    assert asked | set(NEEDS.values()) <= known
