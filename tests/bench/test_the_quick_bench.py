"""Tests that the quick bench fails only when a ratio falls under half of the recorded one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from peers import page, quick
from peers.contender import UNKEYED, UPSERT
from peers.field import (
    AVAILABLE_NOW,
    BINARY_4,
    CONTENDERS,
    KEYED_COPY,
    OUR_UPSERT,
    PER_BATCH,
    PER_PARTITION,
    PYTHON_COPY,
)
from peers.found import CORES, SIZES, THROUGHPUT, Found, Run, load
from peers.goals import goals
from peers.tables import cores, model, seconds

MACHINE = dict.fromkeys(
    ("at", "cores", "memory GiB", "processor", "system", "load", "Python", "Spark", "Postgres", "Kafka", "pyarrow"), "?"
)
BARE_TABLE = next(each for each in CONTENDERS if each.kind == UNKEYED)
BENCH = Path(__file__).parents[2] / "bench"


def runs(contender, part, at, *seconds: float, records=1_000, **more: Any):
    return [
        Run(part, contender.name, contender.family, contender.kind, number, at, records, each, **more)
        for number, each in enumerate(seconds, 1)
    ]


@pytest.mark.parametrize(
    ("found", "recorded", "fell", "why"),
    [
        (1.0, 1.9, False, "a busy machine scatters"),
        (1.0, 2.0, False, "half is not under half"),
        (1.0, 2.1, True, "under half"),
        (1.0, None, False, "nothing was recorded"),
    ],
)
def test_a_ratio_may_fall_to_half(tmp_path, found, recorded, fell, why):
    file = tmp_path / "recorded.json"
    if recorded is not None:
        quick.record({"ours : theirs": recorded}, {}, file)
    assert [each.fell for each in quick.compared({"ours : theirs": found}, file)] == [fell], why


def test_a_ratio_is_the_median_of_the_rounds_that_both_ran():
    ours, theirs = (
        runs(PER_BATCH, THROUGHPUT, 1, 1.0, 1.0, 1.0, 9.0),
        runs(AVAILABLE_NOW, THROUGHPUT, 1, 2.0, 3.0, 10.0),
    )
    assert Found(runs=[*ours, *theirs]).ratio(THROUGHPUT, PER_BATCH.name, AVAILABLE_NOW.name) == 3.0


def test_each_goal_is_met_not_met_or_not_measured():
    found = Found(
        runs=[
            *runs(PER_BATCH, THROUGHPUT, 1, 1.0, lost=0, doubled=1),
            *runs(AVAILABLE_NOW, THROUGHPUT, 1, 2.0),
            *runs(BINARY_4, THROUGHPUT, 1, 0.1),
            *runs(PER_BATCH, SIZES, 1_000, 0.2),
            *runs(AVAILABLE_NOW, SIZES, 1_000, 0.9, steps={"trigger": 0.3}),
        ]
    )
    verdicts = {goal.name.partition(" (")[0]: goal.met for goal in goals(found)}
    assert verdicts["PerBatch append to the best peer's append"] is True
    assert verdicts["PerBatch append to bare binary COPY by 4 connections"] is False
    assert verdicts["rows lost or doubled by Lockstep, in all runs"] is False
    assert verdicts["a warm run of 1,000 records to AvailableNow's trigger"] is False
    assert verdicts["an idle run, ms"] is None


def test_a_bare_table_is_shown_with_the_appends_but_no_goal_is_held_against_it():
    found = Found(
        MACHINE,
        [
            *runs(PER_BATCH, THROUGHPUT, 1, 1.0),
            *runs(PER_PARTITION, THROUGHPUT, 1, 0.5),
            *runs(AVAILABLE_NOW, THROUGHPUT, 1, 2.0),
            *runs(BARE_TABLE, THROUGHPUT, 1, 0.8),
        ],
    )
    held = [goal.found for goal in goals(found) if f"the best peer's append ({AVAILABLE_NOW.name})" in goal.name]
    assert held == [2.0, 4.0]
    text = page.page(found)
    assert f"| {BARE_TABLE.name} | at least once | 1,250 | 2.50 |" in text
    assert f"({BARE_TABLE.name}), PerBatch is 0.80 and PerPartition 1.60 times as fast" in text
    assert BARE_TABLE.name in page.picture(found)


def test_the_page_is_written_from_the_kept_figures_and_says_who_is_left_out(tmp_path):
    found = Found(
        MACHINE,
        [*runs(PER_BATCH, THROUGHPUT, 1, 1.0, lost=0, doubled=0), *runs(OUR_UPSERT, THROUGHPUT, 1, 1.0)],
        missing={"Flink SQL, JDBC": "no jars"},
    )
    found.save(tmp_path / "found.json")
    page.write(load(tmp_path / "found.json"), tmp_path / "page.md", tmp_path / "picture.svg")
    text, drawn = (tmp_path / "page.md").read_text(), (tmp_path / "picture.svg").read_text()
    assert "left out: Flink SQL, JDBC, no jars" in text
    assert "| Lockstep PerBatch | each record once | 1,000 |" in text
    assert "prefers-color-scheme: dark" in drawn
    assert "<script" not in drawn
    assert ET.fromstring(drawn).tag.endswith("svg")  # noqa: S314 - of our own making


def test_the_page_names_the_best_peer_of_all_and_the_best_product_with_the_ratios_to_both():
    found = Found(
        MACHINE,
        [
            *runs(PER_BATCH, THROUGHPUT, 1, 4.0),
            *runs(PER_PARTITION, THROUGHPUT, 1, 2.0),
            *runs(AVAILABLE_NOW, THROUGHPUT, 1, 5.0),
            *runs(PYTHON_COPY[1], THROUGHPUT, 1, 3.0),
            *runs(PYTHON_COPY[0], THROUGHPUT, 1, 6.0),
            *runs(BINARY_4, THROUGHPUT, 1, 0.5),
            *runs(KEYED_COPY[0], THROUGHPUT, 1, 1.5),
            *runs(KEYED_COPY[1], THROUGHPUT, 1, 1.0),
        ],
    )
    text, best = page.page(found), PYTHON_COPY[1].name
    assert (
        f"The best peer is {best}. Rates of ours to it: {PER_BATCH.name} 0.75, Lockstep PerBatch, table by batch -"
        in text
    )
    assert f"The best product is {AVAILABLE_NOW.name}. Rates of ours to it: {PER_BATCH.name} 1.25" in text
    assert [goal.found for goal in goals(found) if f"the best peer's append ({best})" in goal.name] == [0.75, 1.5]
    assert f"best peer: {best}" in page.picture(found)
    assert f"| {PER_BATCH.name} | each record once | 250 | 0.75 | 0.125 | 0.25 |" in text
    assert f"| {KEYED_COPY[1].name} | 1,000 |" in text
    assert "The best product" not in page.page(Found(MACHINE, runs(PER_BATCH, THROUGHPUT, 1, 1.0)))


def test_one_that_is_the_best_peer_and_the_best_product_is_named_once():
    theirs = next(each for each in CONTENDERS if each.name == "Flink SQL, JDBC upsert")
    assert theirs.kind == UPSERT
    text = page.page(Found(MACHINE, [*runs(OUR_UPSERT, THROUGHPUT, 1, 1.0), *runs(theirs, THROUGHPUT, 1, 2.0)]))
    assert text.count(f"is {theirs.name}. Rates of ours to it: {OUR_UPSERT.name} 2.00") == 1
    assert "The best product" not in text


def test_a_size_and_a_number_of_cores_that_the_throughput_has_are_shown_from_there():
    found = Found(
        MACHINE | {"cores": 2},
        [
            *runs(PER_BATCH, SIZES, 1_000, 0.2),
            *runs(PER_BATCH, CORES, 1, 4.0, records=100_000),
            *runs(PER_BATCH, THROUGHPUT, 100_000, 2.5, records=100_000),
            *runs(BINARY_4, THROUGHPUT, 100_000, 0.1, records=100_000),
        ],
    )
    assert seconds(found, SIZES, str).heads == ("seconds", "1000", "100000")
    assert seconds(found, SIZES, str).rows == ((PER_BATCH.name, "0.200", "2.500"),)
    assert cores(found).rows[0][:4] == (PER_BATCH.name, "25,000", "40,000", "1.60")


def test_the_page_tells_the_settings_of_postgres_and_how_long_it_took():
    text = page.page(Found(MACHINE, settings={"shared_buffers": "128MB", "jit": "off"}, took={"a": 30.2, "b": 11.9}))
    assert "the same for the sessions of Lockstep and of the peers: `shared_buffers` 128MB, `jit` off." in text
    assert "(these figures took 42 minutes)" in text


def test_the_model_goes_through_what_was_measured():
    assert model(100.0, 1, 150.0, 2, 1) == pytest.approx(100.0)
    assert model(100.0, 1, 150.0, 2, 2) == pytest.approx(150.0)
    assert model(100.0, 1, 90.0, 2, 4) is None


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_it_fails_by_a_recorded_value_that_is_out_of_reach(tmp_path):
    file = tmp_path / "recorded.json"
    small = ["--records", "2000", "--rounds", "1", "--recorded", str(file)]
    assert quick_bench(*small, "--record").returncode == 0
    document = json.loads(file.read_text())
    assert len(document["ratios"]) == 7
    first = next(iter(document["ratios"]))
    document["ratios"] = {first: 100 * document["ratios"][first]}
    file.write_text(json.dumps(document))
    done = quick_bench(*small)
    assert done.returncode == 1, done.stderr
    assert next(line for line in done.stdout.splitlines() if "FELL" in line).startswith(first)


def quick_bench(*words: str):
    program = [sys.executable, str(BENCH / "versus_quick.py"), *words]
    return subprocess.run(program, capture_output=True, text=True, check=False)
