"""Tests that what strangers do to a lake table is named with table, login and time, or stops the next run."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2
import pytest

from lake.conftest import ALONE, InLake, InProcess
from lake.test_upkeep import batches, kept
from lake.test_verify import rolled_back
from lockstep.adapters.folders import load
from lockstep.core.errors import Refusal
from lockstep.core.lake.files import Replaced, prefix_of
from lockstep.core.proof.verification import next_step
from lockstep.ledger.lake import moves
from lockstep.steps.changes.forget import forget
from lockstep.steps.lake.copy_tables import AS_READ_BACK, AS_WRITTEN, COMMIT_IN_HISTORY, FILES_WHOLE
from lockstep.steps.lake.open_tables import make_tables, open_tables
from lockstep.steps.proof.verify import verify
from support.scenes.here import ME

LED = "update lockstep_lake.iceberg_tables set metadata_location = %s where table_name = 'drill'"
DROPPED = "delete from lockstep_lake.iceberg_tables where table_name = 'drill'"
MADE = """insert into lockstep_lake.iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
    values ('lockstep', 'sales', 'drill', %s, 'TABLE')"""
NAMED = r"by lockstep \(trino\) at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


def as_trino(lake, statement: str, *values: str) -> None:
    with closing(psycopg2.connect(lake.drill.dsn, application_name="trino")) as conn, conn, conn.cursor() as cur:
        cur.execute(statement, values)


def failed(lake) -> dict[str, str]:
    return {c.name: c.detail for c in verify(lake.at.conn, lake.at.broker, lake.folder, deep=False) if not c.ok}


def without_first_row(lake) -> str:
    stream, offset = lake.rows()[0][:2]
    table = lake.table()
    gone = (Replaced(stream, offset, offset + 1),)
    return table.prepare(str(uuid4()), [], gone, prefix_of(table.location, 0, 0), {}).after


def without_a_change(table) -> str:
    return table.prepare(str(uuid4()), [], (), prefix_of(table.location, 0, 0), {}).after


@pytest.mark.long
def test_who_deletes_a_row_is_named_behind_later_batches_and_upkeep(of_tasks):
    lake = of_tasks
    lake.drain()
    as_trino(lake, LED, without_first_row(lake))
    batches(lake, 6)
    assert kept(lake)[0].into_files == 1
    wrong = failed(lake)
    named = {name: detail for name, detail in wrong.items() if "moved by lockstep (trino) at 20" in detail}
    assert named.keys() == {AS_READ_BACK, AS_WRITTEN}, wrong
    assert "19 rows are there, 20 were committed" in named[AS_READ_BACK]


def of_older_metadata(lake, older) -> None:
    as_trino(lake, LED, older.address)


def of_older_metadata_and_one_snapshot_more(lake, older) -> None:
    as_trino(lake, LED, without_a_change(older))


def of_a_snapshot_set_back(lake, _older) -> None:
    as_trino(lake, LED, rolled_back(lake))


def of_the_empty_table(lake, _older) -> None:
    (first,) = (lake.lake / "sales" / "drill" / "metadata").glob("00000-*")
    as_trino(lake, LED, f"file://{first}")


@pytest.mark.parametrize(
    "take_back",
    [
        of_older_metadata,
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in (of_older_metadata_and_one_snapshot_more, of_a_snapshot_set_back, of_the_empty_table)
        ),
    ],
)
def test_a_table_that_is_taken_back_is_found_by_verify_and_stops_the_next_run(of_tasks, take_back):
    lake = of_tasks
    lake.run()
    older = lake.table()
    lake.run()
    batch = max(row[3] for row in lake.rows())
    take_back(lake, older)
    assert f"was taken back behind batch {batch}: moved by lockstep (trino)" in failed(lake).get(COMMIT_IN_HISTORY, "")
    lake.produce(3)
    with pytest.raises(Refusal, match=f"was taken back behind batch {batch}: moved {NAMED}") as refused:
        lake.run()
    assert refused.value.next_command.startswith("in Spark: ")
    assert "another upkeep" not in str(kept(lake)[0].left)
    assert "taken back" in str(kept(lake)[0].left)  # upkeep touches nothing of it, either
    as_trino(lake, LED, lake.drill.ask("select after from lockstep.lake_commit order by batch_id desc limit 1")[0][0])
    assert failed(lake) == {}
    lake.drain()
    assert len(lake.rows()) == 63


def test_a_commit_that_comes_between_two_looks_is_no_table_that_was_taken_back(of_tasks, monkeypatch):
    of_tasks.run()
    other, last_commit = InProcess(of_tasks.drill, of_tasks.lake, None), moves.last_commit
    begun: list[bool] = []

    def after_another(*given: Any) -> Any:
        if not begun:
            begun.append(True)
            assert other.run().went_on
        return last_commit(*given)

    monkeypatch.setattr(moves, "last_commit", after_another)
    try:
        assert open_tables(of_tasks.at.conn, of_tasks.folder.pipeline)[0].address != of_tasks.pointer("drill")
    finally:
        other.at.close()
    assert begun


@pytest.mark.long
def test_a_table_that_is_dropped_and_made_again_is_named(of_tasks):
    from lockstep.adapters.iceberg.schema import make_table  # noqa: PLC0415 - the extra may be missing

    lake = of_tasks
    lake.run()
    as_trino(lake, DROPPED)
    for act in (lake.run, lambda: failed(lake)):
        with pytest.raises(Refusal, match=rf"lockstep\.sales\.drill is gone, .* moved {NAMED} UTC, who dropped it"):
            act()
    as_trino(lake, MADE, make_table(f"file://{lake.lake}/other", lake.folder.pipeline.columns))
    assert "is another table than the one of batch 1: moved by lockstep (trino)" in failed(lake)[COMMIT_IN_HISTORY]
    with pytest.raises(Refusal, match=rf"is another table than the one of batch 1: moved {NAMED}") as refused:
        lake.run()
    assert "register_table('sales.drill', 'file:" in refused.value.next_command


@pytest.mark.long
@pytest.mark.parametrize("kind", ["appended", "keyed"])
def test_a_table_that_a_forgotten_pipeline_has_left_may_be_dropped_and_made_again(made_lake, kind, monkeypatch):
    keyed = ALONE.replace("import Append,", "import Upsert,").replace(
        'Append(Iceberg("sales.drill"))', 'Upsert(Iceberg("sales.drill"), key=("id",))'
    )
    lake = made_lake(InLake, {"appended": ALONE, "keyed": keyed}[kind])
    lake.drain()
    shutil.copytree(lake.drill.home / "drill", lake.drill.home / "shop")
    definition = lake.drill.home / "shop" / "__init__.py"
    definition.write_text(definition.read_text().replace('name="drill"', 'name="shop"'))
    forget(lake.at.conn, "drill", ME)
    as_trino(lake, DROPPED)
    monkeypatch.setattr(type(lake), "folder", property(lambda _: load("shop")))
    with pytest.raises(Refusal, match=r"there is no table lockstep\.sales\.drill") as refused:
        lake.run()
    assert refused.value.next_command == "lockstep migrate shop"

    pipeline = lake.folder.pipeline
    assert make_tables(lake.at.conn, pipeline, f"file://{lake.lake}/again", [pipeline.columns]) == [
        "lockstep.sales.drill"
    ]
    lake.drain()

    assert (len(lake.rows()), failed(lake)) == (60, {})


@pytest.mark.long
def test_a_column_of_a_type_that_is_not_read_is_named_by_verify_and_by_the_next_run(of_tasks):
    lake = of_tasks
    lake.run()
    file = Path(lake.pointer("drill").removeprefix("file://"))
    document = json.loads(file.read_text())
    document["schemas"][0]["fields"].append({"id": 99, "name": "extra", "required": False, "type": "uuid"})
    other = file.with_name(f"00099-{uuid4()}.metadata.json")
    other.write_text(json.dumps(document | {"last-column-id": 99}))
    as_trino(lake, LED, f"file://{other}")
    for act in (lambda: failed(lake), lake.run):
        with pytest.raises(Refusal, match=r"lockstep\.sales\.drill: its column extra is uuid, a type that is "):
            act()


@pytest.mark.long
@pytest.mark.parametrize("what", ["missing", "truncated"])
def test_a_file_that_is_missing_or_truncated_is_named_with_its_batch(of_tasks, what):
    lake = of_tasks
    lake.drain()
    as_trino(lake, LED, without_a_change(lake.table()))
    (path, _, size), *_ = lake.table().files()
    local = Path(path.removeprefix("file://"))
    if what == "missing":
        local.unlink()
    else:
        local.write_bytes(local.read_bytes()[:-9])
    wrong = failed(lake)
    assert f"lockstep.sales.drill: {path} of batch " in wrong[FILES_WHOLE]
    reason = "it is missing" if what == "missing" else f"it has {size - 9:,} bytes, and {size:,} were written"
    assert f"{reason}; the pointer was moved by lockstep (trino) at 20" in wrong[FILES_WHOLE]
    assert "0 rows are there, " in wrong[AS_READ_BACK]
    assert "were committed; moved by lockstep (trino)" in wrong[AS_READ_BACK]


@pytest.mark.long
@pytest.mark.parametrize("what", ["missing", "truncated"])
def test_a_replay_of_rows_whose_file_is_missing_or_truncated_is_refused_in_one_line(of_tasks, what):
    of_tasks.drain()
    for path, _, _ in of_tasks.table().files():
        local = Path(path.removeprefix("file://"))
        local.rename(local.with_suffix(".gone")) if what == "missing" else local.write_bytes(local.read_bytes()[:-9])
    before = of_tasks.pointer("drill")

    with pytest.raises(Refusal, match=r"^lockstep\.sales\.drill: file:.*(a file is missing|magic bytes not found)"):
        of_tasks.replay("0:3", "0:9")

    assert of_tasks.pointer("drill") == before


@pytest.mark.long
def test_the_replay_that_verify_names_brings_the_rows_of_a_missing_file_back(of_tasks):
    of_tasks.drain()
    rows = [row[4:] for row in of_tasks.rows()]
    (path, _, _), *_ = of_tasks.table().files()
    Path(path.removeprefix("file://")).unlink()
    checks = verify(of_tasks.at.conn, of_tasks.at.broker, of_tasks.folder, deep=False)
    batch = min(batch for check in checks if not check.ok for batch in check.batches)
    assert next_step("drill", checks, deep=False) == f"lockstep replay drill --batch {batch}"

    of_tasks.replay(str(batch), str(batch))

    assert (failed(of_tasks), sorted(row[4:] for row in of_tasks.rows())) == ({}, sorted(rows))
