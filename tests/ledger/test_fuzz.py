"""Tests decoders and the COPY writer with random input, in a separate process.

A crash is a failure, and values are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def fuzz(dsn: str, seconds: int) -> None:
    path = os.pathsep.join([str(TESTS.parent / "include"), str(TESTS)])
    done = subprocess.run(
        [sys.executable, str(TESTS / "fuzz.py"), str(seconds), dsn],
        capture_output=True,
        text=True,
        timeout=2 * seconds + 900,
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-3_000:])
    assert int(done.stdout.split()[0]) >= 1


def test_random_input_is_a_row_or_a_reject_and_comes_back_as_it_was(database):
    fuzz(database, int(os.environ.get("LOCKSTEP_FUZZ_SECONDS", "20")))


@pytest.mark.long
def test_the_same_for_ten_minutes(database):
    fuzz(database, 600)
