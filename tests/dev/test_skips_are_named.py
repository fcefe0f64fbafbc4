"""Tests that a session ends with what was skipped and why, and that pytest's own line is still the last one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MODELS = """
import pytest
pytestmark = pytest.mark.skipif(True, reason="needs spin: apt-get install spin")
@pytest.mark.parametrize("model", range(3))
def test_a_model(model): ...
def test_another(): ...
"""
STORE = """
import pytest
@pytest.fixture
def store(): pytest.skip("no server")
def test_in_a_store(store): ...
def test_without_one(): ...
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "two workers"])
def test_each_reason_is_named_once_with_the_file_and_the_number_of_tests(tmp_path, workers):
    (tmp_path / "conftest.py").write_text("from support.skips import pytest_terminal_summary\n")
    (tmp_path / "test_models.py").write_text(MODELS)
    (tmp_path / "test_store.py").write_text(STORE)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--override-ini=pythonpath={TESTS}"]
    done = subprocess.run([*command, *workers], cwd=tmp_path, capture_output=True, text=True, check=False)
    *_, first, second, last = done.stdout.splitlines()
    assert [first, second] == [
        "skipped: 4 x needs spin: apt-get install spin (test_models.py)",
        "skipped: 1 x no server (test_store.py)",
    ]
    assert "1 passed, 5 skipped in" in last


def test_the_suite_itself_names_them(request):
    plugins = request.config.pluginmanager.get_plugins()
    conftests = [each for each in plugins if getattr(each, "__file__", None) == str(TESTS / "conftest.py")]
    assert conftests
    assert all(hasattr(each, "pytest_terminal_summary") for each in conftests)
    assert request.config.getini("addopts")[-1] == "-rfExX", "pytest's own list of skips would be a second one"
