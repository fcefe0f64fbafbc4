"""Tests the lines of a task's log on a batch as the ledger tells it, without an Airflow that runs."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.airflow import logs
from lockstep.core.planning.bounds import AtBatch, AtOffsets, parse_bound
from lockstep.core.staging import AttemptId

RANGE = {
    "topic": "orders.v1",
    "partition": 0,
    "from_offset": 0,
    "until_offset": 1002,
    "delivered": 1002,
    "written": 997,
    "rejected": 5,
    "filtered": 0,
    "attempt": 9,
}
BATCH: dict[str, Any] = {
    "batch": 7,
    "pipeline": "orders",
    "lane": "live",
    "state": "committed",
    "ranges": [RANGE],
    "attempts": [{"attempt": 9, "state": "committed"}],
    "rows_written": 997,
    "rows_rejected": 5,
    "seconds": {"stage": 8.9, "validate": 2.8, "commit": 0.2, "total": None},
    "verdict": None,
}


@pytest.fixture
def said(monkeypatch, caplog):
    """Returns `said(batch)`: the messages of a log of this batch, as `commit` writes them, or `stage`."""
    at = SimpleNamespace(conn=None)

    def of(batch: dict, dag_id: str = "orders_history", *, staged: bool = False) -> list[str]:
        monkeypatch.setattr(logs, "transaction", lambda *_: nullcontext())
        monkeypatch.setattr(logs.reading, "read_batch", lambda *_: batch)
        monkeypatch.setattr(logs, "get_current_context", lambda: {"ti": SimpleNamespace(dag_id=dag_id)})
        monkeypatch.setattr(logs.conf, "get", lambda *_, **__: "https://airflow.example.org/")
        with caplog.at_level(logging.INFO):
            if staged:
                logs.say_staged(at, AttemptId(7, 9))  # type: ignore[arg-type]
            else:
                logs.say_batch(at, "commit", 7)  # type: ignore[arg-type]
        return caplog.messages

    return of


def test_a_committed_batch_is_told_in_lines_and_in_one_line_of_json(said):
    *lines, document = said(BATCH)
    assert lines == [
        "batch 7  live  committed  997 written, 5 rejected",
        "  stage 8.9 s, validate 2.8 s, commit 0.2 s",
        "  partition    offsets    delivered  written  rejected  filtered",
        "  orders.v1-0  [0, 1002)       1002      997         5         0",
        "  page: https://airflow.example.org/lockstep/dags/orders_history/batches/7",
    ]
    assert document.startswith('{"lockstep": 1, "step": "commit", "pipeline": "orders", "batch": 7,')
    found = json.loads(document)
    assert found["ranges"] == [{name: value for name, value in RANGE.items() if name != "attempt"}]
    assert (found["attempt"], found["rows_written"], found["rows_rejected"]) == (9, 997, 5)
    assert found["seconds"] == {"stage": 8.9, "validate": 2.8, "commit": 0.2}


def test_the_page_of_a_batch_of_a_fleet_is_that_of_its_pipeline(said):
    *_, page, _document = said(BATCH, "a fleet")
    assert page == "  page: https://airflow.example.org/lockstep/dags/orders/batches/7"


def test_a_planned_batch_has_no_counts_and_the_state_of_its_attempt(said):
    unknown = dict.fromkeys(("delivered", "written", "rejected", "filtered"))
    *lines, document = said(BATCH | {"state": "planned", "attempts": [], "ranges": [RANGE | unknown], "seconds": {}})
    assert lines[:3] == ["batch 7  live  planned", "  partition    offsets", "  orders.v1-0  [0, 1002)"]
    assert json.loads(document)["ranges"] == [
        {"topic": "orders.v1", "partition": 0, "from_offset": 0, "until_offset": 1002}
    ]
    staged = BATCH | {"state": "planned", "attempts": [{"attempt": 9, "state": "staged"}]}
    assert json.loads(said(staged)[-1])["state"] == "staged"


def attempt_of(way: str, application: str | None, spark: dict | None) -> dict:
    route = {"way": way, "because": "the default"}
    return {"attempt": 9, "state": "staged", "route": route, "spark_application_id": application, "spark": spark}


@pytest.mark.parametrize(
    ("attempt", "line"),
    [
        (attempt_of("process", None, None), None),
        (
            attempt_of("spark", "local-7", {"records": 1001}),
            "  Spark: application local-7, 1001 records by its own count; 1002 delivered by ours",
        ),
        (attempt_of("spark", "app-3", None), "  Spark: application app-3, no count of its own; 1002 delivered by ours"),
    ],
    ids=["process", "spark", "spark that ended first"],
)
def test_stage_says_the_engine_and_the_count_of_spark_beside_ours(said, attempt, line):
    batch = BATCH | {"state": "planned", "attempts": [attempt], "engine": attempt["route"]["way"]}

    *lines, document = said(batch, staged=True)

    assert "  route: {way}: {because}".format(**attempt["route"]) in lines
    assert [each for each in lines if each.startswith("  Spark")] == ([line] if line else [])
    found = json.loads(document)
    records = (attempt["spark"] or {}).get("records")
    assert (found["step"], found["engine"]) == ("stage", attempt["route"]["way"])
    assert (found["spark_application_id"], found["spark_records"]) == (attempt["spark_application_id"], records)


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (AtOffsets({1: 0, 0: 7}), "0:7,1:0"),
        (parse_bound("2026-05-01T10:00", "--from"), "2026-05-01T10:00:00+00:00"),
        (AtBatch(4), "batch 4"),
    ],
)
def test_a_bound_is_written_as_a_person_types_it(bound, text):
    assert str(bound) == text
