"""Provides the gate's pytest plugin. It reports each test's outcome and cause, and which Lockstep was imported."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from pathlib import Path

import pytest

import lockstep
from lockstep.adapters.postgres import connect, transaction
from support.servers.servers import TEMPLATE
from write_catalog import write_catalog

FOUND: dict[str, dict[str, str]] = {}


@pytest.fixture(scope="session", autouse=True)
def own_catalog(request):
    """Writes the catalog of a tree whose migrations were changed, so that behavior alone turns a test red.

    `verify` and `doctor` compare the database with `catalog.txt`: with the old one each test that calls them would see
    the mutant by its text.
    """
    if "LOCKSTEP_TEST_TEMPLATE" not in os.environ:
        return
    server = request.getfixturevalue("servers").migrated()
    with closing(connect(re.sub(r"/\w+$", f"/{TEMPLATE}", server.dsn))) as conn, transaction(conn, None) as cur:
        write_catalog(cur)


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
