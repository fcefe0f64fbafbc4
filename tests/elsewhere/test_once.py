"""Tests that each batch is in a table elsewhere once, whatever becomes of the catalog's answers."""

from __future__ import annotations

import pytest

from support.scenes.here import Here

VALUES = "_stream, _offset, _ordinal, _batch, id, n"


def test_an_undisturbed_run_brings_each_record_once_with_its_values(elsewhere):
    drill = elsewhere()

    drill.finishes()

    assert drill.counted() == (0, 0)
    assert sorted((row[4], row[5]) for row in drill.rows(VALUES)) == sorted((f"r{i}", i) for i in range(150))
    ((batch, _),) = drill.committed()
    summary = drill.table.current_snapshot().summary
    assert (summary["lockstep.pipeline"], summary["lockstep.batch"]) == ("drill", str(batch))
    assert drill.table.properties["lockstep.drill"] == f"{batch}:{summary['lockstep.token']}"
    checks = drill.verified()
    assert all(ok for ok, _ in checks.values()), checks
