"""Tests a lake in a real object store: run, replay, fill, kills, the sweep, and other readers."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lake.test_commit import POINTS as POINTS_OF_STAGED
from lake.test_of_tasks import POINTS as POINTS_OF_TASKS
from lockstep.faults import InjectedFault
from lockstep.steps.lake.look import look_at_lake
from lockstep.steps.lake.sweep import sweep_lake
from lockstep.steps.proof.verify import verify

DOOR = str(Path(sys.executable).with_name("lockstep"))
ROWS = (60, 60, sum(range(60)))  # rows, different offsets, sum of what they hold


def failed(lake: Any) -> dict[str, str]:
    return {c.name: c.detail for c in verify(lake.at.conn, lake.at.broker, lake.folder, deep=True) if not c.ok}


def shown(lake: Any, *names: str) -> set[str]:
    """Returns the objects of the tables' snapshots, as `files` names objects."""
    head = f"{lake.table().location.removesuffix('/sales/drill')}/"
    return {path.removeprefix(head) for name in names for path, _, _ in lake.table(name).files()}


def data_files(lake: Any) -> set[str]:
    return {file for file in lake.files() if "/data/lockstep/" in file}


def by_pyiceberg(lake: Any, options: dict[str, str], name: str) -> tuple[int, int, int]:
    """Counts by pyiceberg with file access of its own, without any code of Lockstep."""
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - the extra may be missing

    rows = StaticTable.from_metadata(lake.pointer(name), options).scan().to_arrow().to_pylist()
    return len(rows), len({(row["_stream"], row["_offset"]) for row in rows}), sum(row["n"] for row in rows)


def by_duckdb(lake: Any, store: Any, name: str) -> tuple[Any, ...] | None:
    """Counts by DuckDB, or returns None where its extension for S3 is not installed."""
    with closing(duckdb.connect()) as other:
        try:
            other.execute("load httpfs")
        except duckdb.Error:
            return None
        host = store.endpoint.removeprefix("http://")
        other.execute(
            f"create secret (type s3, key_id '{store.key}', secret '{store.secret}', endpoint '{host}', use_ssl false, "
            "url_style 'path')"
        )
        paths = [path for path, _, _ in lake.table(name).files()]
        query = "select count(*), count(distinct (_stream, _offset)), sum(n)::int from read_parquet(?)"
        return other.execute(query, [paths]).fetchone()


def test_run_and_replay_in_a_store_commit_each_record_once(in_store, store):
    in_store.drain()
    rows = in_store.rows()
    assert by_pyiceberg(in_store, store.options(), "drill") == ROWS
    assert in_store.replay("0:0", "0:1")
    assert [row[:3] + row[4:] for row in in_store.rows()] == [row[:3] + row[4:] for row in rows]
    assert failed(in_store) == {}
    assert [finding for finding in look_at_lake(in_store.at.conn, in_store.folder.pipeline) if finding] == []
    assert shown(in_store, "drill") <= data_files(in_store)


@pytest.mark.long
def test_run_replay_and_fill_of_three_tables_are_seen_once_by_other_readers(staged_in_store, store):
    lake = staged_in_store
    lake.run()
    lake.skip()
    assert lake.replay("0:0", "0:1")
    assert lake.fill()
    assert failed(lake) == {}
    assert lake.rows("drill") == lake.rows("lines") == lake.in_database()
    for name in ("drill", "lines"):
        assert by_pyiceberg(lake, store.options(), name) == ROWS
        assert by_duckdb(lake, store, name) in (ROWS, None)
    sweep_lake(lake.at.conn)
    assert shown(lake, "drill", "lines") <= data_files(lake)
    assert failed(lake) == {}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("staged", [False, True], ids=["tasks", "staged"])
def test_kills_lose_and_double_nothing_and_leave_no_object_of_the_dead(request, tmp_path, staged):
    lake = request.getfixturevalue("staged_in_store" if staged else "in_store")
    points = POINTS_OF_STAGED if staged else POINTS_OF_TASKS
    for number, point in enumerate(points):
        lake.produce(7)
        armed = tmp_path / f"armed-{number}"
        armed.touch()
        faults = {"LOCKSTEP_FAULT": f"{point}=kill@{armed}", "SPARK_MASTER": "local[1]"}
        done = run_killed(lake, faults)
        assert (done.returncode, armed.exists()) == (-9, False), (point, done.stdout + done.stderr)
        rows = lake.rows()
        assert len({row[:2] for row in rows}) == len(rows)
    lake.drain()
    rows, sent = lake.rows(), 60 + 7 * len(points)
    assert (len(rows), {row[4] for row in rows}) == (sent, {f"r{i}" for i in range(sent)})
    assert not staged or lake.rows("lines") == lake.in_database() == rows
    assert failed(lake) == {}
    sweep_lake(lake.at.conn)
    assert data_files(lake) == shown(lake, *(("drill", "lines") if staged else ("drill",)))
    assert sweep_lake(lake.at.conn) == 0


def run_killed(lake: Any, faults: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs batches in a process of its own. One that has used Arrow's client of S3 must not fork."""
    command = [DOOR, "run", "drill", "--until-idle"]
    return subprocess.run(
        command, env=os.environ | faults, capture_output=True, text=True, check=False, cwd=lake.drill.home, timeout=200
    )


@pytest.mark.long
@pytest.mark.parametrize("point", ["lake.file_open", "lake.one_metadata_written", "lake.sweep_mid"])
def test_a_try_that_ends_in_the_middle_is_swept_and_no_folder_of_it_is_left(in_store, monkeypatch, tmp_path, point):
    armed = tmp_path / "armed"
    armed.touch()
    with monkeypatch.context() as arm:
        first = "lake.file_closed" if point == "lake.sweep_mid" else point
        arm.setenv("LOCKSTEP_FAULT", f"{first}=raise@{armed}")
        with pytest.raises(InjectedFault):
            in_store.run()
        in_store.drain()
        if point == "lake.sweep_mid":
            armed.touch()
            arm.setenv("LOCKSTEP_FAULT", f"{point}=raise@{armed}")
            with pytest.raises(InjectedFault):
                sweep_lake(in_store.at.conn)
    sweep_lake(in_store.at.conn)
    assert data_files(in_store) == shown(in_store, "drill")
    prefixes = {path.rsplit("/", 1)[0] for path in shown(in_store, "drill")}
    folders = {str(p.relative_to(in_store.lake)) for p in (in_store.lake / "sales/drill/data/lockstep").iterdir()}
    assert folders == prefixes
