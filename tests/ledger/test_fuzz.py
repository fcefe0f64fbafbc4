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


ENDED = """
import sys
from fuzz_hostile import Watch, watched
watch = Watch()
with watched(watch):
    watch.round("changes", 77)
    with watch.reading(b"the record"):
        {act}
"""


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ('__import__("decimal").Decimal("1e999999999").__int__()', "ended by -26 at changes, seed 77: b'the record'"),
        ("bytearray(2**33)", "changes, seed 77: b'the record': MemoryError"),
        ("1 / 0", "changes, seed 77: b'the record': ZeroDivisionError"),
    ],
    ids=["time", "memory", "error"],
)
def test_an_input_that_takes_too_much_is_told_with_its_seed(act, said):
    path = os.pathsep.join([str(TESTS.parent / "include"), str(TESTS)])
    done = subprocess.run(
        [sys.executable, "-c", ENDED.format(act=act)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert said in done.stderr


@pytest.mark.long
def test_the_same_for_ten_minutes(database):
    fuzz(database, 600)
