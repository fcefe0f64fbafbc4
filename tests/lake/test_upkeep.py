"""Tests that upkeep leaves few files and the same rows, and that nobody loses what is kept."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.manifest import DataFileContent

from lake.keyed.test_parting import deleted_by_others
from lockstep.adapters.airflow.names import AirflowException, AirflowSkipException
from lockstep.adapters.iceberg.keyed import KeyedTable
from lockstep.airflow import upkeep_for
from lockstep.airflow.upkeep import dag
from lockstep.core.changes.person import Person
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.lake.keeping import Upkeep
from lockstep.core.pipeline.definition import Append, Json, Pipeline
from lockstep.ledger.lake.moves import files_of_pipeline
from lockstep.steps.lake.keep_tables import keep_tables
from lockstep.steps.proof.verify import verify

if TYPE_CHECKING:
    from lockstep.core.lake.keeping import Kept

RUN = SimpleNamespace(triggering_user_name=None, dag_id="drill-upkeep", run_id="scheduled__1")

WHO = Person("me@here", "a test")


def kept(lake, cutoff: datetime | None = None, **more: Any) -> list[Kept]:
    wanted = Upkeep(WHO, cutoff or datetime.now(UTC) - timedelta(days=7), **more)
    return keep_tables(lake.at.conn, lake.folder.pipeline, lake.at.broker.view, wanted)


def batches(lake, count: int, records: int = 3) -> None:
    for _ in range(count):
        lake.produce(records)
        assert lake.run().went_on


def failed(lake) -> list[str]:
    found = verify(lake.at.conn, lake.at.broker, lake.folder, deep=True)
    return [f"{check.name}: {check.detail}" for check in found if not check.ok]


def led_to(table) -> set[str]:
    """Returns every file that the snapshots of a table lead to, and its metadata."""
    found = {table.address}
    for snapshot in table.opened.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.opened.io):
            if manifest.manifest_path in found:
                continue  # of a snapshot before
            found.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.opened.io, discard_deleted=True)
            found.update(entry.data_file.file_path for entry in entries)
    return found


def test_small_files_become_one_and_old_snapshots_go_with_their_files(of_tasks):
    lake = of_tasks
    lake.drain()
    batches(lake, 4)
    outside = lake.table()
    outside_rows = lake.rows()
    batches(lake, 2)
    inside, inside_rows = lake.table(), lake.rows()  # readers are led to it at the cutoff
    cutoff = datetime.now(UTC)
    batches(lake, 3)
    rows, before = lake.rows(), lake.files()
    brought = files_brought(lake)
    assert [kept(lake, cutoff, dry_run=True)[0].merged_files, lake.files()] == [len(lake.table().files()), before]
    (done,) = kept(lake, cutoff)
    assert (done.left, done.into_files) == ([], 1)
    assert len(lake.table().files()) == 1
    assert lake.rows() == rows
    assert failed(lake) == []
    assert files_brought(lake) == brought  # lineage stays in the ledger
    assert read(inside) == sorted(row[:2] for row in inside_rows)
    assert len(outside_rows) == 72
    with pytest.raises(Refusal, match="a file is missing"):
        read(outside)
    on_disk = {f"file://{lake.lake}/{path}" for path in lake.files() if "/metadata/" not in path}
    assert on_disk == {path for path in led_to(lake.table()) if "/metadata/" not in path}
    decided = lake.drill.ask(
        "select detail ->> 'step', who, why from lockstep.decision where kind = 'upkeep' order by 1"
    )
    assert decided == [("expire", "me@here", "a test"), ("merge", "me@here", "a test")]
    assert lake.drill.ask("select count(*) from lockstep.lake_gone where deleted_at is null") == [(0,)]
    again = kept(lake, cutoff)[0]
    assert (again.merged_files, again.expired_snapshots, again.deleted_files, again.swept_files) == (0, 0, 0, 0)
    # A replay, a fill and new batches find the rows of their offsets in the merged file.
    assert lake.replay("0:0", "0:9")
    lake.produce(5)
    lake.skip()
    assert lake.fill()
    batches(lake, 1)
    assert failed(lake) == []
    sent = lake._sent  # noqa: SLF001
    assert sorted(row[4:] for row in lake.rows()) == sorted((f"r{i}", i) for i in range(sent))


@pytest.mark.long
def test_deletes_by_value_of_another_writer_leave_files_unmerged_and_snapshots_expire(of_tasks, monkeypatch):
    batches(of_tasks, 6)
    table = KeyedTable(of_tasks.table())
    after = deleted_by_others(table, monkeypatch, DataFileContent.EQUALITY_DELETES, [{"id": "nobody"}])
    of_tasks.drill.ask("update lockstep_lake.iceberg_tables set metadata_location = %s returning 1", after.address)
    for how in ({"dry_run": True}, {}):
        (done,) = kept(of_tasks, datetime.now(UTC), **how)
        assert (len(done.left), done.merged_files) == (1, 0)
        assert "holds equality deletes" in done.left[0]
        assert done.expired_snapshots > 0


def files_brought(lake) -> list[tuple[Any, ...]]:
    with lake.at.conn, lake.at.conn.cursor() as cur:
        return [(row.batch_id, row.path, row.rows) for row in files_of_pipeline(cur, "drill")]


def read(table) -> list[tuple[int, int]]:
    rows = [row for batch in table.read(["_stream", "_offset"]) for row in batch.to_pylist()]
    return sorted((row["_stream"], row["_offset"]) for row in rows)


def test_a_pipeline_without_a_table_in_the_lake_gets_no_dag_of_upkeep():
    with pytest.raises(BadDefinition, match="clean: none of its tables is in the lake"):
        upkeep_for(Pipeline("clean", "clicks.raw", Json("id string"), Append("public.clicks")))


@pytest.mark.long
def test_the_task_merges_by_a_decision_of_its_run_skips_when_idle_and_fails_when_a_step_is_left(of_tasks, monkeypatch):
    lake = of_tasks

    @contextmanager
    def opened(step):
        assert step == "upkeep"
        yield lake.at

    door: Any = SimpleNamespace(pipeline="drill", opened=opened, folder=lambda: lake.folder)
    monkeypatch.setattr(dag, "get_current_context", lambda: {"dag_run": RUN})
    batches(lake, 3)
    older = lake.pointer("drill")
    batches(lake, 3)
    rows = lake.rows()
    dag.keep_lake(door)
    assert len(lake.table().files()) == 1
    assert lake.rows() == rows
    assert lake.drill.ask("select who, why from lockstep.decision where kind = 'upkeep'") == [
        ("airflow@drill-upkeep", "upkeep of the lake")
    ]
    with pytest.raises(AirflowSkipException, match="drill: no table in the lake needs upkeep"):
        dag.keep_lake(door)
    lake.drill.ask("update lockstep_lake.iceberg_tables set metadata_location = %s returning 1", older)
    with pytest.raises(AirflowException, match=r"drill: left for the next time: .*taken back"):
        dag.keep_lake(door)


def test_a_caller_whose_clock_has_jumped_ahead_lets_no_snapshot_expire(of_tasks, monkeypatch):
    lake = of_tasks

    class Ahead(datetime):
        @classmethod
        def now(cls, tz=None) -> Any:
            return datetime.now(tz) + timedelta(days=30)

    @contextmanager
    def opened(_):
        yield lake.at

    door: Any = SimpleNamespace(pipeline="drill", opened=opened, folder=lambda: lake.folder)
    monkeypatch.setattr(dag, "get_current_context", lambda: {"dag_run": RUN})
    monkeypatch.setattr(dag, "datetime", Ahead)
    batches(lake, 3)
    before = {snapshot.snapshot_id for snapshot in lake.table().opened.metadata.snapshots}

    with suppress(AirflowSkipException):  # what expires is deleted, and readers of last week have lost it
        dag.keep_lake(door)

    assert before <= {snapshot.snapshot_id for snapshot in lake.table().opened.metadata.snapshots}
