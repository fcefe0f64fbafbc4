"""The quick bench fails when a ratio falls under half of what was recorded, and only then."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from peers import page, quick
from peers.contender import UNKEYED
from peers.field import AVAILABLE_NOW, BINARY_4, CONTENDERS, OUR_UPSERT, PER_BATCH, PER_PARTITION
from peers.found import SIZES, THROUGHPUT, Found, Run, load
from peers.goals import goals
from peers.tables import model

MACHINE = dict.fromkeys(
    ("at", "cores", "memory GiB", "processor", "system", "load", "Python", "Spark", "Postgres", "Kafka", "pyarrow"), "?"
)
BARE_TABLE = next(each for each in CONTENDERS if each.kind == UNKEYED)
BENCH = Path(__file__).parents[2] / "bench"


def runs(contender, part, at, *seconds: float, records=1_000, **more: object):
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
    assert len(document["ratios"]) == 6
    first = next(iter(document["ratios"]))
    document["ratios"] = {first: 100 * document["ratios"][first]}
    file.write_text(json.dumps(document))
    done = quick_bench(*small)
    assert done.returncode == 1, done.stderr
    assert next(line for line in done.stdout.splitlines() if "FELL" in line).startswith(first)


def quick_bench(*words: str):
    program = [sys.executable, str(BENCH / "versus_quick.py"), *words]
    return subprocess.run(program, capture_output=True, text=True, check=False)
