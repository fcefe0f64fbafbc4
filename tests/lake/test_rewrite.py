"""Tests how small files of a table in a folder are merged, and which files go with expired snapshots. No server is needed."""

from __future__ import annotations

from uuid import uuid4

import pytest

from lake.test_iceberg import NAME, held, moved, on_disk, table, written
from lockstep.adapters.iceberg import expiry, rewrite
from lockstep.adapters.iceberg.history import was_taken_back
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.core.errors import LakeMoved
from lockstep.core.lake.files import Replaced

__all__ = ["table"]  # the fixture
BIG = 2**20
UUID = "22222222-2222-2222-2222-222222222222"


def grown(table: LakeTable, batches: int) -> LakeTable:
    for batch in range(1, batches + 1):
        table = moved(table, [written(table, [(batch, s, batch) for s in (4, 3)], batch)], batch=batch)
    return table


def merged(table: LakeTable, most_bytes: int = BIG, fewest: int = 2) -> tuple[LakeTable, list[int]]:
    """Merges all small files. Returns the table then, and the number of files of each group."""
    sizes = []
    for files, rows in rewrite.groups_of_files(table, sorted(rewrite.small_files(table, BIG)), most_bytes, fewest):
        path = f"{table.location}/data/lockstep/upkeep.{UUID}/kept-{UUID}-{len(sizes)}.parquet"
        rewrite.write_merged(table, path, rows)
        change = rewrite.prepare_merge(table, str(uuid4()), [file.path for file in files], path)
        table = LakeTable(NAME, change.after)
        sizes.append(len(files))
    return table, sizes


def test_merged_rows_lie_in_the_log_s_order_and_the_snapshot_says_that_they_are_the_same(table):
    before = grown(table, 6)
    after, sizes = merged(before)
    assert sizes == [6]
    assert held(after) == held(before)
    (path, rows, _) = after.files()[0]
    assert (rows, path) == (12, f"{table.location}/data/lockstep/upkeep.{UUID}/kept-{UUID}-0.parquet")
    places = [(r["_stream"], r["_offset"]) for b in after.read(["_stream", "_offset"]) for r in b.to_pylist()]
    assert places == sorted(places)
    summary = after.opened.metadata.current_snapshot().summary
    assert (summary.operation.value, summary["total-records"], summary["lockstep.upkeep"]) == ("replace", "12", "merge")


def test_a_group_holds_no_more_rows_than_its_memory(table):
    before = grown(table, 6)
    size = sum(batch.nbytes for batch in before.read(before.arrow_schema.names)) // 6
    after, sizes = merged(before, most_bytes=2 * size + size // 2)
    assert sizes == [2, 2, 2]
    assert held(after) == held(before)
    assert merged(before, most_bytes=size // 2)[1] == []


def test_files_that_another_writer_took_out_are_not_merged(table):
    before = grown(table, 4)
    ((files, rows),) = rewrite.groups_of_files(before, sorted(rewrite.small_files(before, BIG)), BIG, 2)
    path = f"{table.location}/data/lockstep/upkeep.{UUID}/kept-{UUID}-0.parquet"
    rewrite.write_merged(before, path, rows)
    others = moved(before, [], Replaced(3, 1, 2), Replaced(4, 1, 2))
    known = on_disk(table)
    with pytest.raises(LakeMoved, match="another writer has changed the files"):
        rewrite.prepare_merge(others, UUID, [file.path for file in files], path)
    assert on_disk(table) == known
    more = moved(before, [written(before, [(9, 3, 9)], 9)])
    after = LakeTable(NAME, rewrite.prepare_merge(more, UUID, [file.path for file in files], path).after)
    assert held(after) == held(more)
    assert len(after.files()) == 2


def test_many_manifests_become_one_with_the_same_files(table):
    before = grown(table, 5)
    assert rewrite.count_manifests(before) == 5
    after = LakeTable(NAME, rewrite.prepare_manifests(before, UUID).after)
    assert rewrite.count_manifests(after) == 1
    assert (sorted(after.files()), held(after)) == (sorted(before.files()), held(before))
    assert held(moved(after, [], Replaced(3, 1, 3), Replaced(4, 1, 3))) == [
        each for each in held(before) if each[2] > 2
    ]


def test_only_files_that_no_kept_snapshot_holds_go(table):
    before = grown(table, 3)
    replaced = moved(
        before, [], Replaced(3, 1, 2), Replaced(4, 1, 2)
    )  # the file of batch 1 is in older snapshots alone
    expired = list(reversed(replaced.snapshots[1:]))
    change, gone = expiry.prepare_expiry(replaced, UUID, expired)
    after = LakeTable(NAME, change.after)
    assert after.snapshots == replaced.snapshots[:1]
    (of_first,) = {path for path, _, _ in before.files()} - {path for path, _, _ in replaced.files()}
    assert [path for path in gone if path.endswith(".parquet")] == [of_first]
    assert expiry.unheld_by(after, gone) == set(gone)
    assert expiry.unheld_by(replaced, gone) == set()
    assert expiry.delete_files(after, gone) == len(gone)
    assert held(after) == held(replaced)


def test_an_older_state_is_told_from_one_whose_past_has_expired(table):
    one = grown(table, 2)
    last = one.opened.metadata.current_snapshot()
    two = moved(one, [])
    expired = LakeTable(NAME, expiry.prepare_expiry(two, UUID, list(reversed(two.snapshots[1:])))[0].after)
    older = LakeTable(NAME, one.opened.metadata.metadata_log[-1].metadata_file)
    facts = (last.snapshot_id, last.sequence_number)
    assert [was_taken_back(each, *facts) for each in (one, two, expired)] == [False] * 3
    assert [was_taken_back(each, *facts) for each in (older, moved(older, []), table)] == [True] * 3
    assert not was_taken_back(older, last.snapshot_id, None)  # committed before the ledger kept its order


@pytest.mark.parametrize(("collects", "due"), [("true", 2), ("false", 0), ("FALSE", 0)])
def test_a_table_whose_owner_wants_every_file_kept_has_no_snapshot_that_is_due(table, collects, due):
    grown_one = grown(table, 3)
    grown_one.opened.metadata.properties["gc.enabled"] = collects
    assert len(expiry.due_snapshots(grown_one, 2**62)) == due
