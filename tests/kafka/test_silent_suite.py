"""Tests that validation says nothing but its verdict, whatever its library would like to say."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from support.scenes.here import Here

TALK = """
import logging, sys, warnings
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, format="%(name)s %(message)s")
from lockstep.adapters.folders import load
from lockstep.core.staging import AttemptId
from lockstep.adapters.kafka.broker import Broker
from lockstep.steps.context import Context
from lockstep.steps.batch.validate import validate
dsn, batch_id, fence = sys.argv[1:]
validate(Context(dsn, Broker(KAFKA)), load("drill"),
         AttemptId.of_fence(int(batch_id), fence))
"""
SUITE = {
    "name": "drill",
    "expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}],
}


@pytest.mark.long
def test_great_expectations_says_nothing_even_if_everything_is_logged(drill, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(drill.home))
    (drill.home / "drill" / "expectations.json").write_text(json.dumps(SUITE))
    here = Here(drill)
    planned = plan(here.at.conn, here.at.broker, here.folder, Caller("me"), datetime.now(UTC))
    attempt = stage(here.at, here.engine, here.folder, planned.batch_id, Caller("me"))

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            TALK.replace("KAFKA", repr(drill.kafka)),
            drill.dsn,
            str(attempt.batch_id),
            attempt.fence,  # type: ignore[list-item]
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert done.returncode == 0, done.stderr
    said = (done.stdout + done.stderr).splitlines()
    assert [line for line in said if "great_expectations" in line or "Skipping" in line or "Metrics" in line] == []
    assert drill.ask("select success, (result->'results'->0->>'success')::bool from lockstep.verdict") == [(True, True)]
