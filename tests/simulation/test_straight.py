"""Tests that rows which the target takes as they are go there directly.

No way admits rows that are not the range's.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lockstep.adapters.postgres import transaction
from lockstep.core.errors import BadData, LockTimeout
from lockstep.core.pipeline.definition import PerPartition
from lockstep.engine.sinks import range_rows
from lockstep.engine.sinks.copy_binary import copy_binary
from lockstep.ledger.batch import ranges
from lockstep.targets import straight
from simulation.scene import Scene

OTHER_WAYS = {
    "a text with an end": "alter table public.house alter id type varchar(20)",
    "a wider number": "alter table public.house alter factor type bigint",
    "a rule": "create rule also as on insert to public.house do also notify house",
    "a policy": "alter table public.house enable row level security; create policy all_of_it on public.house using (true)",
}


@pytest.fixture
def by_partition(database, tmp_path):
    scene = Scene(database, tmp_path, guarantee=PerPartition())
    yield scene
    scene.end()


def names(scene: Scene) -> tuple[str, ...]:
    with transaction(scene.at.conn, None) as cur:
        return straight(cur, scene.pipeline.first, scene.pipeline.columns)


def refused(*_: Any) -> None:
    raise AssertionError("a table was made for rows that need none")


def test_rows_that_need_no_cast_are_copied_into_the_target_alone(by_partition, monkeypatch):
    by_partition.log.produce(0, 6)
    by_partition.log.produce(1, 3)
    monkeypatch.setattr(ranges, "create_rows", refused)

    by_partition.done()

    assert names(by_partition) == ("_stream", "_offset", "_ordinal", "_batch", "id", "n", "factor", "uid", "crc")
    assert len(by_partition.rows()) == 9
    assert by_partition.violations() == []


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_where_the_target_takes_another_way_the_same_rows_arrive(by_partition, way):
    by_partition.log.produce(0, 6)
    with transaction(by_partition.at.conn, None) as cur:
        cur.execute(OTHER_WAYS[way])

    by_partition.done()

    assert names(by_partition) == ()
    assert len(by_partition.rows()) == 6
    assert by_partition.violations() == []


def test_rows_come_once_when_a_lock_is_waited_for_in_vain(by_partition, monkeypatch):
    by_partition.log.produce(0, 6)
    locked, failures = ranges.require_newest_of_range, [LockTimeout("somebody else has it")] * 2
    monkeypatch.setattr(
        ranges, "require_newest_of_range", lambda *a: locked(*a) if not failures else fail(failures.pop())
    )

    by_partition.done()

    assert failures == []
    assert len(by_partition.rows()) == 6
    assert by_partition.violations() == []


@pytest.mark.parametrize(("column", "value"), [("_offset", 6), ("_offset", -1), ("_stream", 99)])
def test_a_row_of_another_record_is_kept_out_by_the_database_and_refuses_the_range(
    by_partition, monkeypatch, column, value
):
    by_partition.log.produce(0, 6)

    def bent(rows):
        """Returns rows of which the last one claims to be another record's."""
        values = rows.column(column).to_pylist()
        return copy_binary(
            rows.set_column(
                rows.schema.get_field_index(column), column, pa.array([*values[:-1], value], rows.column(column).type)
            )
        )

    monkeypatch.setattr(range_rows, "copy_binary", lambda rows: bent(rows) if "_batch" in rows.schema.names else [])

    with pytest.raises(BadData, match=r"copied are \(rows, rejects\) \(\d, 0\), told were \(6, 0\)"):
        by_partition.done()

    assert by_partition.rows() == []
    assert by_partition.ask("select * from lockstep.commit") == []


def fail(error: Exception) -> None:
    raise error
