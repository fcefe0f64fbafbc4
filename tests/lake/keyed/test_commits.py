"""Tests that keys in the lake, keys in the database and offsets commit together, with other writers beside them."""

from __future__ import annotations

import json
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import duckdb
import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake.keyed.both import LAKE_POINTS, SceneInBoth
from lake.keyed.conftest import InKeyed
from lake.test_readers import paths_of
from lockstep.adapters.folders import load
from lockstep.adapters.iceberg import folder
from lockstep.adapters.processes import this_owner
from lockstep.core.errors import BadData
from lockstep.core.lake.files import prefix_of
from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch.run import until_idle
from lockstep.steps.lake.sweep import sweep_lake
from lockstep.steps.proof.verify import verify
from simulation.child import AT_WORK, Child
from simulation.log import BEGINNING, Record
from simulation.scene import told

if TYPE_CHECKING:
    from pathlib import Path


def moved_to(keyed: Any, address: str, before: str) -> None:
    with closing(psycopg2.connect(keyed.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(
            "update lockstep_lake.iceberg_tables set metadata_location = %s where metadata_location = %s",
            (address, before),
        )
        assert cur.rowcount == 1


def compacted(keyed: Any) -> None:
    """Moves the pointer as a compactor does: all rows in one new file."""
    table = keyed.table()
    rows = list(table.read(table.arrow_schema.names))
    drops = [task.file for task in table._plan()]  # noqa: SLF001 - no public way compacts
    path = f"{prefix_of(table.location, 0, 0)}/{uuid4()}.parquet"
    if rows:
        table.write(path, pa.Table.from_batches(rows).cast(table.arrow_schema))
    after, *_ = table._prepared(str(uuid4()), drops, [path] if rows else [], {})  # noqa: SLF001
    moved_to(keyed, after, table.address)


def raced(monkeypatch: pytest.MonkeyPatch, races: int, act: Any) -> None:
    """Lets another writer act between preparation and commit, so many times."""
    from lockstep.steps.lake import commit_to_lake  # noqa: PLC0415 - the extra may be missing

    prepare, left = commit_to_lake._prepare, [races]  # noqa: SLF001

    def prepared(*given: Any) -> Any:
        made = prepare(*given)
        if left[0]:
            left[0] -= 1
            act()
        return made

    monkeypatch.setattr(commit_to_lake, "_prepare", prepared)
    monkeypatch.setattr(commit_to_lake, "LAKE_PAUSE_SECONDS", 0)


@pytest.mark.long
def test_a_compactor_between_preparation_and_commit_costs_a_try_and_no_key(keyed, monkeypatch):
    keyed.run()
    raced(monkeypatch, 2, lambda: compacted(keyed))
    keyed.drain()
    assert keyed.rows() == keyed.in_database()
    assert len(keyed.rows()) == len({row[4] for row in keyed.rows()}) > 0
    refused = keyed.drill.ask("select commit_uuid::text from lockstep.lake_prepared where swept_at is not null")
    assert len(refused) == 2
    assert not [file for file in keyed.files() for (each,) in refused if each in file]
    assert [c.detail for c in verify(keyed.at.conn, keyed.at.broker, keyed.folder, deep=True) if not c.ok] == []
    # A reader that knows nothing of Lockstep sees one row for each key.
    with closing(duckdb.connect()) as other:
        paths = [path.removeprefix("file://") for path in paths_of(keyed.pointer("drill"))]
        seen = other.execute("select id, n from read_parquet(?) order by id", [paths]).fetchall()
    assert seen == sorted((row[4], row[5]) for row in keyed.in_database())


@pytest.fixture
def scene(database, tmp_path):
    scene = SceneInBoth(database, tmp_path, kind="keyed")
    yield scene
    scene.end()


def wrote(scene: SceneInBoth, *records: tuple[str, int | None]) -> None:
    part = scene.log.parts[0]
    for key, n in records:
        value = None if n is None else json.dumps({"id": key, "n": n}).encode()
        part.records[part.end] = Record(key.encode(), value, BEGINNING)
        part.end = part.stable_end = part.end + 1


def test_a_deletion_that_is_forgotten_between_preparation_and_commit_is_prepared_anew(scene, monkeypatch):
    """Commits what was rehearsed, or nothing."""
    wrote(scene, ("a", 1), ("b", 1))
    scene.done()
    wrote(scene, ("a", None))
    scene.done()
    gone = "alter table lockstep.tombstone disable trigger user; delete from lockstep.tombstone returning 1"
    raced(monkeypatch, 1, lambda: scene.ask(gone))
    assert scene.on(scene.plan_request(scene.asked("replay", {0: 0}, {0: 2}))) == "committed"
    assert {row[0] for row in scene.rows()} == {"a", "b"}
    assert scene.apart() == []
    assert scene.ask("select count(*) from lockstep.lake_prepared where swept_at is not null") == [(1,)]


def test_a_file_of_keys_that_the_store_gives_back_otherwise_is_refused(scene, monkeypatch):
    def without_a_row(local: Path, address: str) -> None:
        rows = pq.read_table(local, partitioning=None)
        pq.write_table(rows.slice(1), address.removeprefix("file://"))

    wrote(scene, ("a", 1), ("b", 1))
    monkeypatch.setattr(folder, "put_file", without_a_row)
    assert "-keys.parquet does not hold the rows that were written" in told(scene.done)
    assert scene.rows() == []
    assert scene.apart() == []


def test_two_lanes_that_meet_on_a_key_leave_its_newest_record(scene, monkeypatch):
    """A replay commits between preparation and commit of the live lane."""
    wrote(scene, ("a", 1), ("b", 1))
    scene.done()
    scene.factor = 10
    replay = scene.plan_request(scene.asked("replay", {0: 0}, {0: 2}))
    wrote(scene, ("a", 3))
    live = scene.validated(scene.plan())
    done: list[str] = []

    def replayed() -> None:
        from lockstep.steps.context import Context  # noqa: PLC0415 - as the other lane has it

        at, scene.at = scene.at, Context(scene.dsn, scene.at.broker)
        done.append(scene.on(replay))
        scene.at.close()
        scene.at = at

    raced(monkeypatch, 1, replayed)
    scene.commit(live)
    assert done == ["committed"]
    assert {row[0]: row[1] for row in scene.rows()} == {"a": 30, "b": 10}
    assert scene.violations() == []


@pytest.mark.long
def test_a_second_row_of_a_key_that_a_stranger_puts_there_is_refused_and_named(keyed):
    keyed.drain()
    table = keyed.table()
    row = keyed.rows()[0]
    path = f"{prefix_of(table.location, 0, 0)}/{uuid4()}.parquet"
    twice = dict(zip(["_stream", "_offset", "_ordinal", "_batch", "id", "n"], row, strict=True)) | {"_offset": 10_000}
    table.write(path, pa.Table.from_pylist([twice], schema=table.arrow_schema))
    moved_to(keyed, table._prepared(str(uuid4()), [], [path], {})[0], table.address)  # noqa: SLF001
    keyed.put((row[4], 7))
    before = keyed.in_database()
    with pytest.raises(BadData, match=rf"sales\.drill: another writer has put a second row of a key there: .*{row[4]}"):
        keyed.drain()
    assert keyed.in_database() == before


@pytest.mark.long
@pytest.mark.timeout(900)
def test_kills_at_every_point_with_a_compactor_beside_lose_and_double_no_key(keyed, tmp_path):
    def work() -> dict:
        here = InKeyed(keyed.drill, keyed.lake, keyed._send)  # noqa: SLF001
        for _ in until_idle(here.at, here.engine, load("drill"), Caller(this_owner()), 20):
            pass
        return {}

    over, compactions = threading.Event(), list[int]()

    def compact() -> None:
        while not over.wait(0.5):
            with AT_WORK, suppress(AssertionError):  # a commit may come first
                compacted(keyed)
                compactions.append(1)

    stranger = threading.Thread(target=compact, daemon=True)
    stranger.start()
    replays = 0
    for number, point in enumerate(LAKE_POINTS * 2):
        keyed.produce(9)
        outcome = Child.fork(tmp_path / f"armed-{number}", f"{point}=kill", work).wait()
        assert (outcome.kind, outcome.told["reached"]) == ("killed", True), (point, outcome)
        if number % 5 == 4:
            assert Child.fork(tmp_path / f"whole-{number}", None, work).wait().kind == "ok"
            keyed.replay("0:0", "0:9")
            replays += 1
    assert Child.fork(tmp_path / "last", None, work).wait().kind == "ok"
    over.set()
    stranger.join(60)
    assert compactions
    assert keyed.rows() == keyed.in_database()
    assert len(keyed.rows()) == len({row[4] for row in keyed.rows()}) > 0
    lanes = dict(keyed.drill.ask("select lane, count(*) from lockstep.batch where state = 'committed' group by 1"))
    assert lanes.get("replay") == replays == 3
    assert [c.detail for c in verify(keyed.at.conn, keyed.at.broker, keyed.folder, deep=True) if not c.ok] == []
    sweep_lake(keyed.at.conn)
    assert {file for file in keyed.files() if "/data/lockstep/" in file and "/0.0/" not in file} <= ever_shown(keyed)


def ever_shown(keyed: InKeyed) -> set[str]:
    """Returns the data files of each snapshot that readers may still ask for."""
    table = keyed.table()._table  # noqa: SLF001
    manifests = [m for snapshot in table.snapshots() for m in snapshot.manifests(table.io)]
    paths = {e.data_file.file_path for m in manifests for e in m.fetch_manifest_entry(table.io, discard_deleted=False)}
    return {path.removeprefix(f"file://{keyed.lake}/") for path in paths}
