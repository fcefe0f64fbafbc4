"""Tests one read into tables of the lake and of the database: each takes its rows from the same records, or none does."""

from __future__ import annotations

from typing import Any

import pytest

from lake.conftest import DEFINITION, InProcess
from lockstep.steps.proof.verify import verify


def failed(lake: Any) -> dict[str, str]:
    found = verify(lake.at.conn, lake.at.broker, lake.folder, deep=True)
    return {check.name: check.detail for check in found if not check.ok}


@pytest.fixture
def fan_out(made_lake):
    """Yields the drill into two lake tables and one of the database, read by this process with the product's reader."""
    return made_lake(InProcess, DEFINITION)


def test_smoke(fan_out):
    fan_out.drain()
    rows = fan_out.in_database()
    assert (len(rows), {row[4] for row in rows}) == (60, {f"r{i}" for i in range(60)})
    assert fan_out.rows("drill") == fan_out.rows("lines") == rows
    print(fan_out.drill.ask("select route from lockstep.attempt"))
    print(fan_out.drill.ask("select place, target, stream_id, rows, records, offsets from lockstep.target_rows"))
    print(fan_out.drill.ask("select place, digests from lockstep.lake_file"))
    assert failed(fan_out) == {}
    assert fan_out.replay("0:0", "0:5")
    assert failed(fan_out) == {}
