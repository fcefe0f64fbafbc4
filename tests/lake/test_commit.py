"""Tests that results in the lake, results in the database and offsets commit together, or not at all."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from uuid import uuid4

import duckdb
import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake.conftest import TABLES
from lockstep.adapters.iceberg import folder
from lockstep.adapters.postgres import connect
from lockstep.core.errors import BadData, Refusal
from lockstep.core.lake.files import prefix_of
from lockstep.faults import InjectedFault
from lockstep.ledger.migrate import migrate_target

POINTS = [
    "lake.prefix_made",
    "lake.file_closed",
    "lake.looked_back",
    "lake.registered",
    "lake.prepared_row",
    "lake.one_metadata_written",
    "lake.all_metadata_written",
    "lake.one_pointer_moved",
    "commit.ledger_written",
    "commit.done_unacknowledged",
]
QUICK = "lake.one_pointer_moved"  # the others are run by the long tests


def test_two_lake_tables_and_one_of_the_database_move_with_the_offsets(lake):
    lake.drain()
    rows = lake.in_database()
    assert (len(rows), len({row[:2] for row in rows}), {row[4] for row in rows}) == (
        60,
        60,
        {f"r{i}" for i in range(60)},
    )
    assert lake.rows("drill") == lake.rows("lines") == rows
    # One transaction moved the pointers, the offsets and the rows of each batch.
    moved = lake.drill.ask(
        """select m.batch_id, count(distinct p.xid), count(*),
               bool_and(p.xid::text::bigint %% 4294967296 = c.xmin::text::bigint)
           from lockstep.lake_commit m join lockstep.lake_pointer p using (catalog, namespace, name, before, after)
           join lockstep.commit c using (batch_id, token) group by 1 order by 1"""
    )
    assert [(row[1], row[3]) for row in moved] == [(1, True)] * len(moved)
    assert len(moved) == len({row[3] for row in rows}) > 1
    # DuckDB, which knows nothing of Lockstep, reads the same files.
    paths = [path.removeprefix("file://") for path, _, _ in lake.table().files()]
    with closing(duckdb.connect()) as other:
        seen = other.execute(
            "select count(*), count(distinct (_stream, _offset)), sum(n) from read_parquet(?)", [paths]
        )
        assert seen.fetchone() == (60, 60, sum(range(60)))


@pytest.mark.long
def test_the_snapshot_and_the_ledger_say_which_batch_it_is(lake):
    lake.run()
    (batch,) = {row[3] for row in lake.rows()}
    summary = lake.table()._table.metadata.current_snapshot().summary.additional_properties  # noqa: SLF001
    assert (summary["lockstep.pipeline"], summary["lockstep.batch"], summary["lockstep.lane"]) == (
        "drill",
        str(batch),
        "live",
    )
    said = lake.drill.ask("select place, name, added_files, removed_files from lockstep.lake_commit order by place")
    assert said == [(0, "drill", 1, 0), (2, "lines", 1, 0)]
    effect = lake.drill.ask("select effect from lockstep.attempt where state = 'committed'")[0][0]
    assert effect == {
        name: {"inserted": 40} for name in ("lockstep.sales.drill", "public.drill", "lockstep.sales.lines")
    }


@pytest.mark.parametrize("point", [p if p == QUICK else pytest.param(p, marks=pytest.mark.long) for p in POINTS])
def test_after_a_fault_nothing_shows_or_all_of_it_and_the_next_run_commits_the_batch_once(
    lake, monkeypatch, tmp_path, point
):
    armed = tmp_path / "armed"
    armed.touch()
    with monkeypatch.context() as arm:
        arm.setenv("LOCKSTEP_FAULT", f"{point}=raise@{armed}")
        with pytest.raises(InjectedFault):
            lake.run()
    shown = lake.in_database()
    assert lake.rows("drill") == lake.rows("lines") == shown
    assert len(shown) == (40 if point == "commit.done_unacknowledged" else 0)
    lake.drain()
    assert len(lake.in_database()) == 60
    assert lake.rows("drill") == lake.rows("lines") == lake.in_database()


def stranger(lake, name: str) -> None:
    """Moves a table's pointer as another writer does, by a snapshot without rows."""
    table = lake.table(name)
    made = table.prepare(str(uuid4()), [], (), prefix_of(table.location, 0, 0), {})
    with closing(psycopg2.connect(lake.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(
            "update lockstep_lake.iceberg_tables set metadata_location = %s where table_name = %s and metadata_location = %s",
            (made.after, name, made.before),
        )
        assert cur.rowcount == 1


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_a_pointer_that_another_writer_moved_rolls_back_everything_and_is_prepared_anew(lake, monkeypatch, name):
    from lockstep.steps.lake import commit_to_lake  # noqa: PLC0415 - the extra may be missing

    races = 3
    prepare = commit_to_lake._prepare  # noqa: SLF001

    def raced(*given: Any) -> Any:
        nonlocal races
        made = prepare(*given)
        if races:
            races -= 1
            stranger(lake, name)
            assert lake.in_database() == []
        return made

    monkeypatch.setattr(commit_to_lake, "_prepare", raced)
    monkeypatch.setattr(commit_to_lake, "LAKE_PAUSE_SECONDS", 0)
    lake.run()
    assert len(lake.in_database()) == 40
    assert lake.rows("drill") == lake.rows("lines") == lake.in_database()
    refused = lake.drill.ask("select commit_uuid::text from lockstep.lake_prepared where swept_at is not null")
    assert len(refused) == 6
    assert not [file for file in lake.files() for (each,) in refused if each in file]


@pytest.mark.long
def test_a_table_that_moves_all_the_time_is_named_and_nothing_is_written(lake, monkeypatch):
    from lockstep.steps.lake import commit_to_lake  # noqa: PLC0415 - the extra may be missing

    prepare = commit_to_lake._prepare  # noqa: SLF001

    def raced(*given: Any) -> Any:
        made = prepare(*given)
        stranger(lake, "lines")
        return made

    monkeypatch.setattr(commit_to_lake, "_prepare", raced)
    monkeypatch.setattr(commit_to_lake, "LAKE_PAUSE_SECONDS", 0)
    monkeypatch.setattr(commit_to_lake, "LAKE_TRIES", 2)
    with pytest.raises(Refusal, match=r"prepared 2 times, .* lockstep\.sales\.lines has moved .* by lockstep"):
        lake.run()
    assert lake.in_database() == lake.rows("drill") == lake.rows("lines") == []


BY_BATCH = """create table public.drill (id text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null,
    primary key (_stream, _offset, _ordinal, _batch)) partition by list (_batch)"""


@pytest.mark.long
def test_a_table_by_batch_beside_the_lake_takes_the_staged_rows_as_they_are(lake):
    with closing(psycopg2.connect(lake.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner; drop table public.drill")
    (lake.drill.home / "drill" / "target.sql").write_text(BY_BATCH)
    with closing(connect(lake.drill.dsn)) as conn:
        migrate_target(conn, lake.folder)
    lake.drain()
    assert len(lake.in_database()) == 60
    assert lake.rows("drill") == lake.rows("lines") == lake.in_database()


@pytest.mark.long
def test_two_rows_of_one_place_are_refused_where_no_index_would(lake, monkeypatch):
    from lockstep.targets.lake import spool  # noqa: PLC0415 - the extra may be missing

    batch = spool.Q["open_rows"]
    doubled = batch.replace("from {rows} t", "from (select * from {rows} r union all select * from {rows} r) t")
    monkeypatch.setattr(spool, "Q", dict(spool.Q) | {"open_rows": doubled})
    with pytest.raises(BadData, match=r"stream \d+ offset 0 has two rows with _ordinal 0"):
        lake.run()
    assert lake.in_database() == lake.rows("drill") == lake.rows("lines") == []


def shortened(local, path) -> None:
    path.write_bytes(local.read_bytes()[:-9])


def without_a_row(local, path) -> None:
    rows = pq.read_table(local, partitioning=None)
    pq.write_table(rows.slice(1), path)


def of_another_batch(local, path) -> None:
    rows = pq.read_table(local, partitioning=None)
    place, field = rows.schema.get_field_index("_batch"), rows.schema.field("_batch")
    pq.write_table(rows.set_column(place, field, pa.array([0] * rows.num_rows, field.type)), path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (shortened, "cannot be read back"),
        (without_a_row, "do not hold the rows that are staged"),
        (of_another_batch, "holds rows of another batch"),
        (lambda *_: None, "cannot be read back"),
    ],
    ids=["shortened", "without-a-row", "of-another-batch", "missing"],
)
def test_a_file_that_the_store_does_not_give_back_as_it_was_written_is_refused(lake, monkeypatch, spoil, reason):
    def put(local, address: str) -> None:
        path = folder.lake_place(address).local
        path.parent.mkdir(parents=True, exist_ok=True)
        spoil(local, path)

    with monkeypatch.context() as broken:
        broken.setattr(folder, "put_file", put)
        with pytest.raises(BadData, match=reason):
            lake.run()
    assert lake.in_database() == lake.rows("drill") == lake.rows("lines") == []
    assert lake.drill.ask("select count(*) from lockstep.lake_file") == [(0,)]
    lake.drain()
    assert len(lake.in_database()) == 60
    assert lake.rows("drill") == lake.rows("lines") == lake.in_database()
