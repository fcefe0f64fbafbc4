"""Tests the way of a batch: decided in one place, by definition and size, with a reason."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep import (
    Append,
    Avro,
    Custom,
    Debezium,
    Envelope,
    Iceberg,
    Json,
    PerPartition,
    Pipeline,
    Protobuf,
    Raw,
    Upsert,
)
from lockstep.core.errors import BadDefinition
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.planning.routes import MAX_COMMITS_IN_PROCESS, MAX_OFFSETS_IN_PROCESS, Way, route, usual_route

PIPELINE = Pipeline("orders", "orders.v1", Json("id string, n int"), Append("public.orders"))
ENGINE = Path(lockstep.__file__).parent


def folder(transform: str | None = None, **changed: Any) -> PipelineFolder:
    return PipelineFolder(replace(PIPELINE, **changed), Path("orders"), transform, None, None)


def ranges(*spans: int) -> list[StreamRange]:
    return [
        StreamRange(number, OffsetRange(TopicPartition("orders.v1", number), 100, 100 + span))
        for number, span in enumerate(spans)
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"format": Avro("id string, b binary, wide decimal(38,18)", key="id", subject="s")},
        {"format": Avro("id string", rest="more")},
        {"format": Json("id string", registry=True)},
        {"format": Json("id string", strict=True)},
        {"format": Json("id string, b binary, wide decimal(38,18)", rest="more")},
        {"format": Raw("body")},
        {"envelope": Envelope(timestamp="at")},
    ],
)
def test_whatever_a_definition_wants_of_its_records_their_number_decides(changed):
    its = folder(**changed)
    assert [route(its, ranges(span)).way for span in (1, MAX_OFFSETS_IN_PROCESS + 1)] == [Way.PROCESS, Way.TASKS]


@pytest.mark.parametrize("format_", [Protobuf("id string", rest="more"), Debezium("id string"), Custom("id string")])
def test_what_may_end_its_reader_is_read_and_staged_by_tasks_whatever_the_size(format_):
    judged = folder(format=format_, target=Upsert("public.o", key=("id",)))
    because = f"tasks read, decode and stage {type(format_).__name__} in one pass"
    for span in (1, MAX_OFFSETS_IN_PROCESS + 1):
        assert route(judged, ranges(span)).document() == {"way": "tasks", "because": because}
    assert usual_route(judged) == route(judged, [])
    assert route(judged, ranges(1), died=True).way is Way.SPARK


def test_a_small_batch_is_read_in_this_process_and_a_large_one_in_tasks():
    small = route(folder(), ranges(MAX_OFFSETS_IN_PROCESS - 1, 1))
    large = route(folder(), ranges(MAX_OFFSETS_IN_PROCESS, 1))
    assert small.document() == {
        "way": "process",
        "because": "20,000 offsets, no more than the 20,000 that one process reads",
    }
    assert large.document() == {
        "way": "tasks",
        "because": "20,001 offsets, more than the 20,000 that one process reads",
    }
    assert route(folder(), ranges(11), max_offsets=10).way is Way.TASKS


def test_many_ranges_that_commit_one_by_one_are_shared_by_tasks():
    few, many = ranges(*[1] * MAX_COMMITS_IN_PROCESS), ranges(*[1] * (MAX_COMMITS_IN_PROCESS + 1))
    apart = folder(guarantee=PerPartition())
    assert [route(apart, these).way for these in (few, many)] == [Way.PROCESS, Way.TASKS]
    assert route(apart, many).because == "65 ranges that commit one by one, more than 64"
    assert route(folder(), many).way is Way.PROCESS


@pytest.mark.parametrize(
    ("changed", "because"),
    [
        ({"read": "spark"}, 'the definition asks for it: read="spark"'),
        ({"transform": "def transform(records): ..."}, "a transform makes the rows"),
        ({"target": Append("public.a", transform="cheap")}, "a transform makes the rows"),
        ({"target": (Append("public.a"), Append("public.b"))}, "2 targets take the rows of one read"),
    ],
)
def test_the_definition_names_what_needs_spark_whatever_the_size(changed, because):
    assert route(folder(**changed), ranges(1)).document() == {"way": "spark", "because": because}
    assert usual_route(folder(**changed)) == route(folder(**changed), ranges(1_000_000))


def test_tables_of_the_lake_and_the_database_take_their_rows_from_one_read():
    both = folder(target=(Append("public.a"), Append(Iceberg("sales.a"))))
    assert [route(both, ranges(n), max_offsets=10).way for n in (1, 11)] == [Way.PROCESS, Way.TASKS]
    assert (both.fans_out, both.decodes_to_rows, both.is_straight) == (True, True, False)
    newest = (Upsert("public.a", key=("id",)), Append(Iceberg("sales.a")))
    assert folder(format=Json("id string"), target=newest).fans_out
    keyed = folder(format=Json("id string", key="id"), target=newest)  # a tombstone gives the lake no row
    made = folder(target=(Append("public.a", transform="cheap"), Append(Iceberg("sales.a"))))
    assert [each.fans_out for each in (keyed, made, folder())] == [False, False, False]
    assert route(keyed, ranges(1)).because == "2 targets take the rows of one read"


def test_a_record_that_this_process_cannot_read_leads_to_spark():
    left, died = route(folder(), ranges(1), left=True), route(folder(), ranges(1), died=True)
    assert (left.way, died.way) == (Way.TASKS, Way.SPARK)
    assert "cannot be read or decoded" in left.because
    assert "has died" in died.because


def test_check_tells_small_batches_and_large_ones_apart():
    assert usual_route(folder()).document() == {
        "way": "process",
        "because": "batches of up to 20,000 offsets; Spark's tasks read larger ones",
    }


def test_a_definition_may_ask_for_spark_alone_and_older_ones_keep_their_hash():
    with pytest.raises(BadDefinition, match="read is 'java': it must be auto or spark"):
        folder(read="java")
    assert "read" not in folder().document()
    assert folder(read="spark").document()["read"] == "spark"


def test_route_is_one_function_and_only_engines_ask_it():
    calls = {
        str(file.relative_to(ENGINE))
        for file in ENGINE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "route"
    }
    assert calls == {"core/planning/routes.py", "engine/driver_first.py", "engine/spark/engine.py"}
