"""Tests that the committed offsets of a pipeline are counted once, by the engine of the attempt that committed them."""

from __future__ import annotations

import json
from typing import Any

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.ledger.views import reading
from lockstep.ledger.views.engine_offsets import EngineOffsets
from support.fakes.ledger_rows import LedgerRows, commit_ranges, read


def read_by(ledger, token: int, way: str) -> None:
    route = json.dumps({"way": way, "because": "a test says so"})
    ledger.ask("update lockstep.attempt set route = %(r)s where token = %(t)s returning 1", r=route, t=token)


def done_by(ledger, way: str, ranges: dict[int, tuple[int, int]], **how: Any) -> None:
    batch = ledger.planned(ranges)
    token = ledger.opened(batch)
    read_by(ledger, token, way)
    ledger.committed(batch, token, **how)


def by_engine(conn, *names: str, counts: EngineOffsets | None = None, patience: float = 60.0):
    return read(conn, (counts or EngineOffsets()).count, names or ("orders",), patience)


def test_a_pipeline_without_a_commit_has_none_of_either_engine(ledger, conn):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    read_by(ledger, ledger.opened(batch), "spark")

    none = {"spark": 0, "process": 0}
    assert by_engine(conn, "orders", "never") == {"orders": none, "never": none}


def test_offsets_are_added_up_by_engine_and_over_ranges(ledger, conn):
    one, other = ledger.stream(0), ledger.stream(1, start=100)
    done_by(ledger, "spark", {one: (0, 10), other: (100, 125)}, delivered=7)
    done_by(ledger, "process", {one: (10, 12)})
    done_by(ledger, "spark", {one: (12, 15)})
    elsewhere = LedgerRows(conn, "clicks")
    done_by(elsewhere, "spark", {elsewhere.stream(0): (0, 1000)})

    assert by_engine(conn) == {"orders": {"spark": 38, "process": 2}}, "offsets, whether a record was at each or not"
    assert by_engine(conn, "clicks") == {"clicks": {"spark": 1000, "process": 0}}


def test_the_engine_is_that_of_the_attempt_that_committed(ledger, conn):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    read_by(ledger, ledger.opened(batch), "process")
    newest = ledger.opened(batch)
    read_by(ledger, newest, "spark")
    ledger.committed(batch, newest)

    assert by_engine(conn) == {"orders": {"spark": 10, "process": 0}}


def test_attempts_of_older_code_are_spark_by_its_old_route_and_unknown_without_one(ledger, conn):
    stream = ledger.stream(0)
    done_by(ledger, "tasks", {stream: (0, 10)})
    ledger.done({stream: (10, 13)})

    assert by_engine(conn) == {"orders": {"spark": 10, "process": 0, "unknown": 3}}
    assert [each["engine"] for each in read(conn, reading.read_batches, "orders")] == ["spark", None]


def test_a_closed_batch_is_counted_once_and_an_open_one_anew(ledger, conn):
    counts, first, other = EngineOffsets(batches_at_once=2), ledger.stream(0), ledger.stream(1)
    for begin in range(0, 50, 10):
        done_by(ledger, "spark", {first: (begin, begin + 10)})
    opened = ledger.planned({first: (50, 60), other: (0, 7)})
    token = ledger.opened(opened)
    read_by(ledger, token, "process")

    assert by_engine(conn, counts=counts) == {"orders": {"spark": 50, "process": 0}}
    assert by_engine(conn, counts=counts) == {"orders": {"spark": 50, "process": 0}}
    ledger.committed(opened, token)
    for _ in range(2):
        assert by_engine(conn, counts=counts) == {"orders": {"spark": 50, "process": 17}}
    assert by_engine(conn, counts=EngineOffsets()) == by_engine(conn, counts=counts)


def test_a_range_that_an_open_batch_has_committed_is_counted_once_too(ledger, conn):
    counts, first, other = EngineOffsets(), ledger.stream(0), ledger.stream(1)
    batch = ledger.planned({first: (0, 10), other: (0, 7)})
    token = ledger.opened(batch, unit="stream")
    read_by(ledger, token, "process")
    with transaction(conn, OWNER) as cur:
        commit_ranges(cur, (batch, token), other)

    for _ in range(2):
        assert by_engine(conn, counts=counts) == {"orders": {"spark": 0, "process": 7}}
    ledger.committed(batch, token)
    for _ in range(2):
        assert by_engine(conn, counts=counts) == {"orders": {"spark": 0, "process": 17}}


def test_a_history_that_is_counted_in_part_has_no_figure_yet(ledger, conn):
    counts, stream = EngineOffsets(batches_at_once=2), ledger.stream(0)
    for begin in range(3):
        done_by(ledger, "spark", {stream: (begin, begin + 1)})

    found = [by_engine(conn, counts=counts, patience=-1.0) for _ in range(3)]

    assert found == [{}, {}, {"orders": {"spark": 3, "process": 0}}]
