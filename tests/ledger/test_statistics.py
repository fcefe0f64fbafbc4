"""Tests that Postgres knows enough of a new table to plan for as many rows as there are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lockstep.core.planning.decisions import Caller
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.steps.batch import stage as staging
from lockstep.steps.batch.plan import plan
from support.scenes.here import Here

KNOWN = f"select reltuples::int from pg_class where relnamespace = '{STAGING_SCHEMA}'::regnamespace and relname = %s"


@pytest.mark.parametrize(("many", "known"), [(1, True), (1_000_000, False)], ids=["many", "few"])
def test_many_staged_rows_are_looked_at_before_they_are_counted_and_sorted(drill, monkeypatch, many, known):
    monkeypatch.setattr(staging, "MANY", many)
    here, who = Here(drill), Caller("me")

    planned = plan(here.at.conn, here.at.broker, here.folder, who, datetime.now(UTC))
    attempt = staging.stage(here.at, here.engine, here.folder, planned.batch_id, who)
    here.at.close()

    (staged,) = drill.ask("select sum(rows)::int from lockstep.manifest")
    assert staged > (0,)
    assert drill.ask(KNOWN, attempt.table) == [staged if known else (-1,)]
