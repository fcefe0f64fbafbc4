"""Tests that what others do to a lake table is found and named, and that replays take out what they replace."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockstep.adapters import postgres
from lockstep.adapters.folders import load
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.core.errors import Refusal
from lockstep.core.lake.files import Replaced, prefix_of
from lockstep.core.proof.extent import proofs
from lockstep.steps.changes.hand_over import hand_over
from lockstep.steps.lake.copy_tables import AS_READ_BACK, AS_WRITTEN, COMMIT_IN_HISTORY
from lockstep.steps.proof.verify import verify
from lockstep.steps.upkeep.coverage import upkeep
from support.scenes.command_line import CommandLine
from support.scenes.here import ME
from support.scenes.odd_logs import delete_records

DRILL = "lockstep.sales.drill"


def checked(lake, *, deep: bool = True) -> list[Any]:
    return verify(lake.at.conn, lake.at.broker, lake.folder, deep=deep)


def failed(lake, *, deep: bool = False) -> dict[str, str]:
    return {check.name: check.detail for check in checked(lake, deep=deep) if not check.ok}


def led_to(lake, address: str, name: str = "drill") -> None:
    with closing(psycopg2.connect(lake.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(
            "update lockstep_lake.iceberg_tables set metadata_location = %s where table_name = %s", (address, name)
        )


def with_other_values(table: Any) -> str:
    """Returns metadata as a stranger writes it: a file stands for another one, with each `n` one higher."""
    one, *_ = (task.file for task in table._plan())  # noqa: SLF001 - no public way replaces a file
    held = pq.read_table(one.file_path.removeprefix("file://"), partitioning=None)
    place, field = held.schema.get_field_index("n"), held.schema.field("n")
    changed = held.set_column(place, field, pa.array([n + 1 for n in held["n"].to_pylist()], field.type))
    path = f"{prefix_of(table.location, 0, 0)}/{uuid4()}.parquet"
    table.write(path, changed.cast(table.arrow_schema))
    after, *_ = table._prepared(str(uuid4()), [one], [path], {})  # noqa: SLF001 - as above
    return str(after)


def test_every_row_of_the_lake_is_compared_with_kafka(lake):
    lake.drain()
    assert failed(lake, deep=True) == {}
    tables = [target.table for target in lake.folder.pipeline.targets]
    found = proofs(tables, checked(lake))
    assert [(proof.target, proof.coordinates, proof.contents) for proof in found] == [(t, "log", "log") for t in tables]


@pytest.mark.long
def test_a_row_that_a_stranger_deletes_is_named(lake):
    lake.drain()
    stream, offset = lake.rows()[0][:2]
    table = lake.table()
    gone = (Replaced(stream, offset, offset + 1),)
    led_to(lake, table.prepare(str(uuid4()), [], gone, prefix_of(table.location, 0, 0), {}).after)
    wrong = failed(lake)
    assert f"{AS_READ_BACK}: {DRILL}" in wrong
    assert "were committed; moved by lockstep" in wrong[f"{AS_READ_BACK}: {DRILL}"]
    assert not [name for name in wrong if "sales.lines" in name or "public.drill" in name]
    assert any(f"offset {offset} has neither row nor reject" in detail for detail in failed(lake, deep=True).values())


@pytest.mark.long
def test_a_value_that_a_stranger_changes_is_found_by_digest_and_by_the_log(lake):
    lake.drain()
    led_to(lake, with_other_values(lake.table()))
    wrong = failed(lake, deep=True)
    assert any("are not those that it committed" in detail for name, detail in wrong.items() if DRILL in name)
    assert any("what its record says" in name and DRILL in name for name in wrong)


@pytest.mark.long
def test_a_table_that_was_taken_back_is_named_and_nothing_is_written_into_it(lake):
    lake.run()
    before = lake.pointer("drill")
    lake.drain()
    assert lake.pointer("drill") != before
    led_to(lake, rolled_back(lake))
    assert "was taken back behind batch" in failed(lake).get(f"{COMMIT_IN_HISTORY}: {DRILL}", "")
    lake.produce(5)
    with pytest.raises(Refusal, match=r"lockstep\.sales\.drill was taken back behind batch .* by lockstep"):
        lake.drain()


def rolled_back(lake) -> str:
    """Returns the address of metadata in which the current snapshot is the parent of the newest one."""
    file = Path(lake.pointer("drill").removeprefix("file://"))
    document = json.loads(file.read_text())
    newest = document["current-snapshot-id"]
    (parent,) = [s["parent-snapshot-id"] for s in document["snapshots"] if s["snapshot-id"] == newest]
    document["current-snapshot-id"] = document["refs"]["main"]["snapshot-id"] = parent
    document["snapshot-log"] = document["snapshot-log"][:-1]
    other = file.with_name(f"00099-{uuid4()}.metadata.json")
    other.write_text(json.dumps(document))
    return f"file://{other}"


@pytest.mark.long
def test_a_table_that_was_made_again_is_refused(lake):
    from lockstep.adapters.iceberg.schema import make_table  # noqa: PLC0415 - the extra may be missing

    lake.run()
    led_to(lake, make_table(f"file://{lake.lake}/other", lake.folder.pipeline.columns))
    assert "is another table than the one of batch" in failed(lake)[f"{COMMIT_IN_HISTORY}: {DRILL}"]
    with pytest.raises(Refusal, match=r"lockstep\.sales\.drill is another table than the one of batch"):
        lake.drain()


def test_a_replay_takes_out_what_it_replaces_in_every_table(lake):
    lake.drain()
    before = {name: {path for path, _, _ in lake.table(name).files()} for name in ("drill", "lines")}
    pinned, old = lake.table(), lake.rows()
    assert lake.replay("0:0", "0:1")
    rows = lake.in_database()
    assert lake.rows("drill") == lake.rows("lines") == rows
    assert [row[:3] + row[4:] for row in rows] == [row[:3] + row[4:] for row in old]
    newest = max(row[3] for row in rows)
    assert {row[0] for row in rows if row[3] == newest} < {row[0] for row in rows}
    # The file that the replay shares with another partition is written anew. The others stay as they are.
    said = lake.drill.ask("select removed_files, rewritten_files from lockstep.lake_commit where batch_id = %s", newest)
    assert said == [(1, 1), (1, 1)]
    for name, files in before.items():
        assert len({path for path, _, _ in lake.table(name).files()} & files) == len(files) - 1
    assert sorted(row["_offset"] for batch in pinned.read(["_offset"]) for row in batch.to_pylist()) == sorted(
        row[1] for row in old
    )
    assert failed(lake, deep=True) == {}


@pytest.mark.long
def test_a_fill_brings_what_was_skipped_into_every_table(lake):
    lake.run()
    lake.skip()
    before = lake.rows()
    assert len(before) == 40
    assert lake.fill()
    assert len(lake.in_database()) == 60
    assert lake.rows("drill") == lake.rows("lines") == lake.in_database()
    said = lake.drill.ask(
        "select added_files, removed_files from lockstep.lake_commit order by batch_id desc, place limit 2"
    )
    assert said == [(1, 0), (1, 0)]
    assert failed(lake, deep=True) == {}


@pytest.mark.long
def test_a_preview_shows_the_rows_of_every_table_and_moves_no_pointer(lake):
    lake.drain()
    before, files = {name: lake.pointer(name) for name in ("drill", "lines")}, lake.files()
    rows = len([row for row in lake.rows() if row[:2] in first_segment(lake)])
    lake.code = lambda value: value | {"n": value["n"] + 1}
    found, _ = lake.preview("replay", "0:0", "0:1")
    changed = {"added": 0, "removed": 0, "changed": rows, "unchanged": 0}
    assert found.document()["targets"] == {target.table: changed for target in lake.folder.pipeline.targets}
    assert ({name: lake.pointer(name) for name in before}, lake.files()) == (before, files)


@pytest.mark.long
@pytest.mark.parametrize("look", ["a preview", "a record"])
def test_a_lake_that_is_read_slowly_ends_no_transaction(of_tasks, monkeypatch, capsys, tmp_path, look):
    of_tasks.drain()
    read = LakeTable.read

    def slowly(*given: Any, **more: Any) -> Any:
        time.sleep(2)  # as a store does that lists many manifests
        yield from read(*given, **more)

    monkeypatch.setattr(postgres, "IDLE_SECONDS", 1)
    monkeypatch.setattr(LakeTable, "read", slowly)
    if look == "a preview":
        of_tasks.at.close()  # the next connection is one of less patience
        found, _ = of_tasks.preview("replay", "0:0", "0:1")
        assert found.document()["unchanged"] > 0
    else:
        (tmp_path / "home").mkdir()
        line, drill = CommandLine(monkeypatch, capsys, tmp_path / "home"), of_tasks.drill
        line.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))
        said = line("lineage", "drill", "--partition", "0", "--offset", "1")
        assert (said.code, "batch 1" in said.out) == (0, True), said


def first_segment(lake) -> set[tuple[int, int]]:
    """Returns the coordinates of the rows in the segment that begins partition 0."""
    return set(
        lake.drill.ask(
            """select d._stream, d._offset from public.drill d join lockstep.coverage c on c.stream_id = d._stream
               and c.offsets @> d._offset join lockstep.stream s using (stream_id)
               where s.partition = 0 and lower(c.offsets) = 0"""
        )
    )


def test_rows_that_a_former_owner_has_written_are_compared_with_its_commits(of_tasks, monkeypatch):
    of_tasks.drain()
    folder = of_tasks.drill.home / "shop"
    shutil.copytree(of_tasks.drill.home / "drill", folder)
    definition = folder / "__init__.py"
    definition.write_text(definition.read_text().replace('name="drill"', 'name="shop"'))
    hand_over(of_tasks.at.conn, DRILL, "drill", load("shop").pipeline, ME)
    monkeypatch.setattr(type(of_tasks), "folder", property(lambda _: load("shop")))
    of_tasks.produce(7)

    of_tasks.drain()

    assert len(of_tasks.rows()) == len({row[4] for row in of_tasks.rows()}) == 67
    assert failed(of_tasks, deep=True) == {}
    stream, offset = of_tasks.rows()[0][:2]
    table = of_tasks.table()
    gone = (Replaced(stream, offset, offset + 1),)
    led_to(of_tasks, table.prepare(str(uuid4()), [], gone, prefix_of(table.location, 0, 0), {}).after)
    assert "were committed; moved by lockstep" in failed(of_tasks)[AS_READ_BACK]


def test_segments_that_upkeep_has_merged_are_compared_as_those_of_their_batches(of_tasks):
    of_tasks.drain()
    before = {check.name: check.detail for check in checked(of_tasks, deep=False)}
    for partition, end in of_tasks.drill.ask("select partition, position from lockstep.stream"):
        delete_records(of_tasks.drill.kafka, of_tasks.drill.topic, end, partition)
    assert upkeep(of_tasks.at.conn, of_tasks.at.broker.view, least=2).merged > 0

    assert failed(of_tasks) == {}

    after = {check.name: check.detail for check in checked(of_tasks, deep=False)}
    assert [(name, after[name]) for name in (AS_READ_BACK, AS_WRITTEN)] == [
        (name, before[name]) for name in (AS_READ_BACK, AS_WRITTEN)
    ]
    led_to(of_tasks, with_other_values(of_tasks.table()))
    assert "are not those that it committed" in failed(of_tasks)[AS_WRITTEN]
