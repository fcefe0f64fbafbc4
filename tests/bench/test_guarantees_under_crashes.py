"""Tests `make guarantees` in small: each guarantee is killed where it makes a difference, and loses or doubles as it says."""

from __future__ import annotations

import dataclasses
import secrets
from collections import Counter
from pathlib import Path

import pytest

import guarantees
from guarantees import BETWEEN, CASES, CRASHES, VALIDATED, Bench, judge
from guarantees_table import HEADS, Row, table, write, written
from stack import Calls

RECORDS, BATCHES = 180, 3
A_BATCH = RECORDS // BATCHES
PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
ONCE, TWICE = Counter({(0, 0): 1, (0, 1): 1}), Counter({(0, 0): 1, (0, 1): 2})
COSTS = {"nothing": (0, 0), "lost": (A_BATCH, 0), "doubled": (0, A_BATCH)}
MACHINE = {"at": "2026-01-02T03:04:05+00:00", "cores": 2, "memory GiB": 8, "load": 1.4, "seconds": 7}


@pytest.fixture(scope="module")
def bench(servers, kafka, tmp_path_factory, worker_id):
    """Yields a bench on the session's servers, and what is in its topic."""
    name = f"guarantees_{worker_id}_{secrets.token_hex(3)}"
    with servers.database(f"{name}_ledger") as ledger, servers.empty_database(f"{name}_warehouse") as warehouse:
        home = tmp_path_factory.mktemp("guarantees")
        calls = Calls(home, kafka, {"ledger": ledger, "warehouse": warehouse}, topic=name)
        yield Bench(calls, RECORDS, lambda _: None, BATCHES, (VALIDATED, BETWEEN)), calls.fill(RECORDS)
        calls.end()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kills_before_and_between_the_moves_cost_what_the_guarantee_says(bench, case):
    crashed, topic = bench

    row = crashed.suffer(case, topic)

    assert (row.lost, row.doubled, row.crashes) == (*COSTS[case.cost], 2)
    assert row.as_promised


@pytest.mark.parametrize(
    ("cost", "rows", "found"),
    [
        ("nothing", ONCE, (0, 0, True)),
        ("nothing", Counter({(0, 0): 1}), (1, 0, False)),
        ("nothing", TWICE, (0, 1, False)),
        ("nothing", Counter({(0, 0): 2}), (1, 1, False)),
        ("lost", ONCE, (0, 0, False)),
        ("lost", Counter({(0, 0): 1}), (1, 0, True)),
        ("lost", Counter({(0, 0): 2}), (1, 1, False)),
        ("doubled", ONCE, (0, 0, False)),
        ("doubled", TWICE, (0, 1, True)),
        ("doubled", Counter({(0, 0): 2}), (1, 1, False)),
    ],
)
def test_rows_are_compared_with_the_records_one_by_one(cost, rows, found):
    assert judge(dataclasses.replace(CASES[0], cost=cost), ONCE, rows) == found


def test_the_page_has_a_row_for_each_guarantee_with_its_cost_under_all_crashes():
    lines = [line.strip("| ").split(" | ") for line in written(PAGE.read_text()).splitlines() if line.startswith("|")]
    heads, _, *rows = lines

    assert tuple(heads) == HEADS
    assert [row[0] for row in rows] == [case.title for case in CASES]
    for case, row in zip(CASES, rows, strict=True):
        found = dict(zip(HEADS, row, strict=True))
        a_batch = int(found["records"]) // guarantees.BATCHES
        costs = {"nothing": (0, 0), "lost": (a_batch, 0), "doubled": (0, a_batch)}
        assert (int(found["lost"]), int(found["doubled"])) == costs[case.cost], case.title
        assert int(found["crashes"]) == len(CRASHES)


def test_the_table_takes_the_place_of_the_one_between_the_marks_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    rows = [Row("per batch", "the ledger's", 500, 3, 0, 0, None, as_promised=True)]

    write(page, rows, MACHINE, 5)

    text = page.read_text()
    assert written(text) == f"\n{table(rows, MACHINE, 5)}\n"
    assert "2026-01-02, 2 cores, 8 GiB, load 1; 5 batches each, 7 s for all." in text
    assert "| per batch | the ledger's | 500 | 3 | 0 | 0 | - |\n" in text
    assert text.replace(written(text), "") == PAGE.read_text().replace(written(PAGE.read_text()), "")
