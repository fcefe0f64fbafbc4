"""Tests that `restored` looks at lake tables, and names those whose files upkeep has deleted since the backup (L1)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from lockstep.steps.changes.restored import restored


def needs(lake) -> list[str]:
    found = restored(lake.at.conn, lake.at.broker, lake.folder.pipeline, None, None)
    return [each for each in found.needs if each.startswith("lockstep.sales.")]


def test_a_table_of_a_backup_that_is_older_than_upkeep_is_named_with_the_way_out(lake):
    lake.drain()
    assert [each.partition(" ")[0] for each in needs(lake)] == ["lockstep.sales.drill", "lockstep.sales.lines"]
    assert all("is as its pointer in the ledger has it: lockstep verify drill --deep" in each for each in needs(lake))
    file = Path(urlsplit(lake.pointer("drill")).path)
    held = file.read_bytes()
    file.unlink()

    lost, other = needs(lake)

    assert lost.startswith("lockstep.sales.drill cannot be read: ")
    assert f"{file.name}: a file is missing" in lost
    assert "older than LOCKSTEP_LAKE_KEEP" in lost
    assert "then lockstep restored drill --preview" in lost
    assert other.startswith("lockstep.sales.lines is as its pointer")
    file.write_bytes(held)
    assert all("is as its pointer" in each for each in needs(lake))
