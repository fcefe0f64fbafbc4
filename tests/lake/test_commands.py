"""Tests what a user is told of a pipeline with lake tables: each command answers, or says in one line what it does not do."""

from __future__ import annotations

import pytest

from support.scenes.command_line import CommandLine


@pytest.fixture
def lockstep(request, monkeypatch, capsys, tmp_path):
    (tmp_path / "home").mkdir()
    line = CommandLine(monkeypatch, capsys, tmp_path / "home")
    drill = request.getfixturevalue("of_tasks" if "of_tasks" in request.fixturenames else "lake").drill
    for name, value in {"DSN": drill.dsn, "KAFKA": drill.kafka, "PIPELINES": str(drill.home)}.items():
        monkeypatch.setenv(f"LOCKSTEP_{name}", value)
    return line


@pytest.mark.long
def test_every_command_answers(lake, lockstep):
    for said in (lockstep("check", "drill"), lockstep("migrate", "drill"), lockstep("run", "drill", "--until-idle")):
        assert said.code == 0, said
    (batch, *_) = sorted({row[3] for row in lake.rows()})
    files = lockstep("files", "drill", "--json").document
    assert [(t["table"], sum(f["rows"] for f in t["files"])) for t in files["tables"]] == [
        ("lockstep.sales.drill", 60),
        ("lockstep.sales.lines", 60),
    ]
    of_batch = lockstep("files", "drill", "--batch", str(batch))
    assert (of_batch.code, "lockstep.sales.lines: 1 files" in of_batch.out) == (0, True), of_batch
    for arguments in (
        ("status", "drill"),
        ("batches", "drill"),
        ("batch", str(batch)),
        ("holes", "drill"),
        ("verify", "drill"),
        ("verify", "drill", "--deep"),
        ("verify", "drill", "--since", str(batch)),
        ("rejects", "drill"),
        ("retention", "drill"),
        ("metrics",),
        ("reap",),
        ("upkeep", "drill", "--lake", "--dry-run"),
        ("upkeep", "drill", "--lake", "--reason", "a test"),
        ("migrate", "drill", "--propose"),
        ("replay", "drill", "--batch", str(batch), "--preview"),
        ("replay", "drill", "--batch", str(batch), "--reason", "a test"),
    ):
        said = lockstep(*arguments)
        assert said.code == 0, said
    assert lake.rows("drill") == lake.rows("lines") == lake.in_database()


@pytest.mark.long
def test_what_is_not_done_for_the_lake_is_one_line(lake, lockstep):
    lake.drain()
    stream, offset = lake.rows()[0][:2]
    for arguments in (
        ("blame", "drill", "--target", "lockstep.sales.drill", "--key", "r1"),
        ("upkeep", "drill"),
        ("erase", "drill", "--key", "r1", "--column", "id", "--reason", "a test"),
    ):
        said = lockstep(*arguments)
        assert (said.code, "Traceback" in said.err) != (70, True), said
        assert "lockstep.sales.drill" in said.err or "--lake" in said.err, said
    # What one record became is read from each table, also when upkeep has merged its file.
    found = lockstep("lineage", "drill", "--partition", "0", "--offset", str(offset), "--json").document
    assert (found["coverage"], {row["_target"] for row in found["rows"]}) == (
        "batch",
        {"lockstep.sales.drill", "lockstep.sales.lines", "public.drill"},
    )
    assert {(row["_stream"], row["_offset"], row["id"]) for row in found["rows"]} == {
        (stream, offset, lake.rows()[0][4])
    }
