"""Provides the gate's pytest plugin. It reports each test's outcome and cause, and which Lockstep was imported."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import lockstep

FOUND: dict[str, dict[str, str]] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" or not report.passed:
        kind = call.excinfo.typename if call.excinfo else ""
        said = str(call.excinfo.value) if call.excinfo else ""
        FOUND[item.nodeid] = {"outcome": report.outcome, "when": report.when, "kind": kind, "said": said[:500]}
    return report


def pytest_sessionfinish():
    about = {"lockstep": lockstep.__file__, "tests": FOUND}
    Path(os.environ["LOCKSTEP_MUTANT_REPORT"]).write_text(json.dumps(about), encoding="utf-8")
