"""Tests what commands, pages and metrics tell of a commit into the lake, and what `doctor` finds of its tables."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from lockstep.adapters.iceberg.rewrite import lake_facts
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.cli.looks.metering import scraper
from lockstep.core.health.findings import Check
from lockstep.steps.lake.look import look_at_lake
from support.oracles.exposed import values
from support.scenes.command_line import CommandLine


@pytest.fixture
def lockstep(of_tasks, monkeypatch, capsys, tmp_path):
    (tmp_path / "home").mkdir()
    line = CommandLine(monkeypatch, capsys, tmp_path / "home")
    drill = of_tasks.drill
    for name, value in {"DSN": drill.dsn, "KAFKA": drill.kafka, "PIPELINES": str(drill.home)}.items():
        monkeypatch.setenv(f"LOCKSTEP_{name}", value)
    return line


@pytest.mark.long
def test_a_commit_into_the_lake_is_told_by_command_page_and_metrics(of_tasks, lockstep):
    from lockstep.adapters.prometheus import exposition  # noqa: PLC0415 - imported where it is used, as the command does
    from lockstep.web.pages.batch_page import batch_page  # noqa: PLC0415 - Airflow reads its home when it is imported

    of_tasks.drain()
    before = of_tasks.pointer("drill")
    assert of_tasks.replay("0:0", "0:1")
    newest = max(row[3] for row in of_tasks.rows())
    (move,) = lockstep("batch", str(newest), "--json").document["lake"]
    table = of_tasks.table()
    assert (move["target"], move["snapshot_id"]) == ("lockstep.sales.drill", table.snapshots[0])
    assert (move["before"], move["after"], move["retries"]) == (before, of_tasks.pointer("drill"), 0)
    its = [row for row in of_tasks.rows() if row[3] == newest]
    assert (move["files"], move["rows"], move["removed_files"], move["rewritten_files"]) == (1, len(its), 1, 1)
    said = lockstep("batch", str(newest))
    assert f"{before} before" in said.out
    page = batch_page("drill", newest)
    assert all(text in page for text in ("<h2>Lake</h2>", before, move["after"], str(move["snapshot_id"])))
    told = values(exposition(scraper().scrape)[0].decode())
    of_lake = {name: value for (name, *labels), value in told.items() if labels == ["drill", "lockstep.sales.drill"]}
    assert (of_lake["lockstep_lake_files"], of_lake["lockstep_lake_bytes"]) == (1, move["bytes"])
    assert (of_lake["lockstep_lake_retries"], 0 < of_lake["lockstep_lake_prepare_seconds"] < 60) == (0, True)


@pytest.mark.long
def test_the_doctor_finds_what_makes_replays_slow_and_metadata_that_is_gone(of_tasks, lockstep):
    of_tasks.run()
    found = [finding for finding in look_at_lake(of_tasks.at.conn, of_tasks.folder.pipeline) if finding]
    assert found == []
    address = of_tasks.pointer("drill")
    file = Path(address.removeprefix("file://"))
    document = json.loads(file.read_text())
    document["properties"]["write.metadata.metrics.column._offset"] = "none"
    other = file.with_name("00099-other.metadata.json")
    other.write_text(json.dumps(document))
    led_to(of_tasks, f"file://{other}")
    (blind,) = [finding for finding in look_at_lake(of_tasks.at.conn, of_tasks.folder.pipeline) if finding]
    assert (blind.check, blind.found) == (Check.LAKE_METRICS, "its files have no bounds of _offset")
    assert lake_facts(LakeTable("lockstep.sales.drill", address), None).small_files == 1
    other.unlink()
    said = lockstep("doctor", "drill", "--json")
    (gone,) = [each for each in said.document["findings"] if each["check"] == "lake table"]
    assert (said.code, "a file is missing" in gone["found"]) == (1, True)


def led_to(of_tasks, address: str) -> None:
    with closing(psycopg2.connect(of_tasks.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("update lockstep_lake.iceberg_tables set metadata_location = %s", (address,))
