"""Tests `make guarantees` in small: each guarantee, with both engines, loses or doubles what it says and nothing else."""

from __future__ import annotations

import dataclasses
import secrets
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

import guarantees
from guarantees import BETWEEN, CASES, ENGINES, MOMENTS, SPARK, Bench
from guarantees_rows import Found, Stored, judge
from guarantees_table import HEADS, Outcome, summary, table, write, written
from stack import Calls

RECORDS, BATCHES = 160, 2
A_BATCH = RECORDS // BATCHES
PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
MACHINE = {"at": "2026-01-02T03:04:05+00:00", "cores": 2, "memory GiB": 8, "load": 1.4, "seconds": 7}
STRUCK, ANOTHER = Stored(0, 0, 0, "r0", 0, 1), Stored(0, 1, 0, "r1", 1, 2)
RECORDED = Counter((STRUCK, ANOTHER))


def costs_of(case, a_batch):
    return {"nothing": (0, 0), "lost": (a_batch, 0), "doubled": (0, a_batch)}[case.cost]


@pytest.fixture(scope="module")
def bench(servers, kafka, tmp_path_factory, worker_id):
    """Yields a bench on the session's servers, and what is in its topic."""
    name = f"guarantees_{worker_id}_{secrets.token_hex(3)}"
    with servers.database(f"{name}_ledger") as ledger, servers.empty_database(f"{name}_warehouse") as warehouse:
        home = tmp_path_factory.mktemp("guarantees")
        calls = Calls(home, kafka, {"ledger": ledger, "warehouse": warehouse}, topic=name)
        made = Bench(calls, RECORDS, lambda _: None, BATCHES, moments=(BETWEEN,), kills_executors=False)
        yield made, calls.fill(RECORDS)
        calls.end()


def cases():
    """Yields each guarantee with each engine. Two of Spark's are long: their drivers die where the third one's does."""
    for case, engine in product(CASES, ENGINES):
        is_long = engine == SPARK and case.title in {"idempotent", "at least once"}
        yield pytest.param(case, engine, id=f"{case.title}-{engine}", marks=[pytest.mark.long] * is_long)


@pytest.mark.parametrize(("case", "engine"), list(cases()))
def test_a_driver_killed_between_the_moves_and_a_killed_worker_cost_what_the_guarantee_says(bench, case, engine):
    crashed, topic = bench

    outcome = crashed.suffer(case, engine, topic)

    assert (outcome.lost, outcome.doubled, outcome.other) == (*costs_of(case, A_BATCH), 0)
    assert (outcome.drivers, outcome.workers) == (1, int(engine == SPARK))
    assert outcome.as_promised


@pytest.mark.parametrize(
    ("cost", "rows", "found"),
    [
        ("nothing", [STRUCK, ANOTHER], Found(0, 0, 0, as_promised=True)),
        ("nothing", [STRUCK], Found(1, 0, 0, as_promised=False)),
        ("nothing", [STRUCK, ANOTHER, ANOTHER], Found(0, 1, 0, as_promised=False)),
        ("nothing", [STRUCK, STRUCK], Found(1, 1, 0, as_promised=False)),
        ("nothing", [STRUCK, ANOTHER._replace(id="r0")], Found(1, 0, 1, as_promised=False)),
        ("nothing", [STRUCK, ANOTHER._replace(batch=1)], Found(1, 0, 1, as_promised=False)),
        ("nothing", [STRUCK, ANOTHER, ANOTHER._replace(ordinal=1)], Found(0, 0, 1, as_promised=False)),
        ("lost", [STRUCK, ANOTHER], Found(0, 0, 0, as_promised=False)),
        ("lost", [ANOTHER], Found(1, 0, 0, as_promised=True)),
        ("lost", [STRUCK], Found(1, 0, 0, as_promised=False)),
        ("lost", [], Found(2, 0, 0, as_promised=False)),
        ("doubled", [STRUCK, ANOTHER], Found(0, 0, 0, as_promised=False)),
        ("doubled", [STRUCK, STRUCK, ANOTHER], Found(0, 1, 0, as_promised=True)),
        ("doubled", [STRUCK, ANOTHER, ANOTHER], Found(0, 1, 0, as_promised=False)),
        ("doubled", [STRUCK, STRUCK, STRUCK, ANOTHER], Found(0, 2, 0, as_promised=False)),
    ],
)
def test_whole_rows_are_compared_and_the_cost_falls_on_the_struck_batch_alone(cost, rows, found):
    assert judge(cost, RECORDED, Counter(rows), STRUCK.batch) == found


@pytest.mark.parametrize("cost", ["lost", "doubled"])
def test_a_cost_that_no_batch_has_paid_is_not_as_promised(cost):
    assert not judge(cost, RECORDED, RECORDED, struck=3).as_promised


def test_the_page_has_a_row_for_each_guarantee_and_engine_with_its_cost_under_all_kills():
    lines = [line.strip("| ").split(" | ") for line in written(PAGE.read_text()).splitlines() if line.startswith("|")]
    heads, _, *rows = lines

    assert tuple(heads) == HEADS
    assert [tuple(row[:2]) for row in rows] == [(case.title, engine) for case in CASES for engine in ENGINES]
    for row in rows:
        found = dict(zip(HEADS, row, strict=True))
        case = next(case for case in CASES if case.title == found["guarantee"])
        costs = costs_of(case, int(found["records"]) // guarantees.BATCHES)
        assert (int(found["lost"]), int(found["doubled"]), int(found["other"])) == (*costs, 0), row
        parts = ("1", "1") if found["engine"] == SPARK else ("-", "-")
        assert (found["drivers killed"], found["workers killed"], found["executors killed"]) == (
            str(len(MOMENTS)), *parts,
        ), row  # fmt: skip


def test_the_table_takes_the_place_of_the_one_between_the_marks_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    whole = Outcome("per batch", "spark", "the ledger's", 500, 4, 1, 1, 0, 0, 0, as_promised=True)
    doubled = Outcome("at least once", "process", "another Postgres", 500, 4, 0, 0, 0, 100, 0, as_promised=True)
    outcomes = [whole, doubled, dataclasses.replace(whole, lost=1, as_promised=False)]

    write(page, outcomes, MACHINE, 5)

    text = page.read_text()
    assert written(text) == f"\n{table(outcomes, MACHINE, 5)}\n"
    assert "2026-01-02, 2 cores, 8 GiB, load 1; 5 batches each, 7 s for all.\n" in text
    assert "| per batch | spark | the ledger's | 500 | 4 | 1 | 1 | 0 | 0 | 0 |\n" in text
    assert "| at least once | process | another Postgres | 500 | 4 | - | - | 0 | 100 | 0 |\n" in text
    assert summary(outcomes) == (
        "2 of 3 as promised: 1500 records compared whole; killed: 12 drivers, 2 workers, 2 executors; 100 doubled and "
        "0 lost where the guarantee allows it"
    )
    assert text.replace(written(text), "") == PAGE.read_text().replace(written(PAGE.read_text()), "")
