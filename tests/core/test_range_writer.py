"""Tests the end of a range in its task: nothing is committed of an input that ends too early."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lockstep.core.engine import RangeOutcome
from lockstep.core.errors import BadData
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.states import RangeEnd
from lockstep.engine.sinks.range_writer import END_ROW, RangeWriter
from lockstep.engine.sinks.stretches import END


class Task:
    """The work of a task, and its connection to a ledger that remembers the streams and counts of commits."""

    attempt = SimpleNamespace(batch_id=5)
    straight, keeps_bytes, may_cut = (), False, True

    def __init__(self) -> None:
        self.committed: list[tuple[int, int]] = []

    @contextmanager
    def session(self):
        yield self

    def of_part(self, _part):
        return self

    def reads_on(self) -> None:
        pass

    def is_committed(self, _stream_id) -> bool:
        return False

    def copy(self, *_: Any) -> None:
        pass

    def commit(self, line, *_: Any) -> RangeOutcome:
        self.committed.append((line.stream_id, line.delivered))
        return RangeOutcome(line.stream_id, RangeEnd.COMMITTED)


def records(stream: int, *offsets: int) -> pa.RecordBatch:
    size = len(offsets)
    columns = {
        "_stream": pa.array([stream] * size, pa.int32()),
        "_offset": pa.array(offsets, pa.int64()),
        "_ordinal": pa.array([0] * size, pa.int32()),
        "_timestamp": pa.array([0] * size, pa.timestamp("us", "UTC")),
        "_bytes": pa.array([1] * size, pa.int64()),
        "_reason": pa.nulls(size, pa.string()),
        "_deleted": pa.array([False] * size, pa.bool_()),
        "n": pa.array(offsets, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)


@pytest.fixture
def task() -> Task:
    return Task()


@pytest.fixture
def writer(task) -> RangeWriter:
    part = tuple(StreamRange(stream, OffsetRange(TopicPartition("t", stream), 0, 9)) for stream in (1, 2, 3))
    return RangeWriter(task, "run", {1: 0, 2: 0, 3: 0}, ("n",)).of_part(part)


def test_a_range_is_committed_where_the_next_one_begins_and_a_quiet_one_at_the_end(writer, task):
    found = [row for each in writer.whole([records(1, 0, 1), records(2, 4), END_ROW]) for row in each.to_pylist()]

    assert task.committed == [(1, 2), (2, 1), (3, 0)]
    assert [(row["stream_id"], row["what"]) for row in found] == [*((n, "committed") for n in (1, 2, 3)), (END, "end")]


def test_the_range_that_is_under_way_is_not_committed_when_the_input_ends_without_its_end(writer, task):
    list(writer.whole([records(1, 0, 1), records(2, 4)]))

    assert task.committed == [(1, 2)]


def test_records_of_a_range_that_was_left_are_refused(writer, task):
    with pytest.raises(BadData, match="stream 1: its records did not come one after another"):
        list(writer.whole([records(1, 0), records(2, 4), records(1, 1), END_ROW]))

    assert task.committed == [(1, 1), (2, 1)]


@pytest.mark.parametrize(
    ("end", "committed"), [([END_ROW], [(1, 2), (2, 1)]), ([], [])], ids=["with its end", "without it"]
)
def test_a_transforms_ranges_are_committed_at_the_end_of_the_input_alone(
    writer, task, end, committed, tmp_path, monkeypatch
):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    ranges = [records(1, 0, 1)], [records(2, 4)], []
    made = [batch for each in ranges for batch in writer.intake(each)]

    list(writer.outlet([*made, *end]))

    assert task.committed == committed


@pytest.mark.parametrize("ended", [(), (0,), (1, 1)], ids=str)
def test_a_task_that_did_not_come_to_its_end_fails_the_read(writer, ended):
    rows = [{"slot": 0, "stream_id": 1, "what": "committed", "reason": None}]
    rows += [{"slot": slot, "stream_id": END, "what": "end", "reason": None} for slot in ended]

    with pytest.raises(BadData, match=f"orders: only {len(set(ended))} of 2 tasks came to the end of their ranges"):
        writer.reports(rows, 2, "orders")


def test_the_outcomes_of_tasks_that_came_to_their_end_are_those_of_their_ranges(writer):
    rows = [{"slot": 0, "stream_id": 1, "what": "committed", "reason": None}]
    rows += [{"slot": slot, "stream_id": END, "what": "end", "reason": None} for slot in (0, 1)]

    assert writer.reports(rows, 2, "orders") == (RangeOutcome(1, RangeEnd.COMMITTED),)
