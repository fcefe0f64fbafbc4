"""Tests that the records of the second workload are what they claim, and that its ratios are of the same rounds."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from peers.contender import APPEND
from peers.found import Found, Run
from peers.meter import family, pss
from peers.real.events import BAD, CLEAN, PAIRS, PARTITIONS, SCHEMA, events, place_of
from peers.real.field import VIEW, memory_part
from peers.real.goals import WRONG, goals
from peers.real.pools import pools
from peers.real.report import shown
from peers.real.workloads import BAD_RECORDS, CLEAN_RECORDS
from peers.workload import balanced, names_of

RECORDS = 4_000
# So that figures of two days are figures of the same records.
DIGESTS = {CLEAN: "c1b4d66446bfcd2b", BAD: "113905ff7ba13bf5", PAIRS: "7a9676459f2f7a68"}
ESCAPED_PAIR = re.compile(rb"\\ud8[0-9a-f]{2}\\ud[c-f]|\\ud83[cde]\\ud[c-f]")
NAMED: dict[str, Any] = {"workload": "a workload", "engine": "an engine", "lost": 0, "doubled": 0}
BENCH = Path(__file__).parents[2] / "bench"


def made(kind):
    return [value if isinstance(value, bytes) else value.encode() for _, value, _ in events(kind, RECORDS, PARTITIONS)]


@pytest.fixture(scope="module")
def clean():
    return made(CLEAN)


@pytest.mark.parametrize("kind", DIGESTS)
def test_the_same_seed_makes_the_same_records(kind):
    assert hashlib.sha256(b"\n".join(made(kind))).hexdigest()[:16] == DIGESTS[kind]


def test_another_seed_makes_others():
    assert pools(1)["ip"] != pools(2)["ip"]


def test_a_record_has_700_bytes_25_columns_and_a_nested_object(clean):
    assert 650 < sum(map(len, clean)) / RECORDS < 750
    fields = Counter(name for value in clean for name in json.loads(value))
    assert set(fields) == {*names_of(SCHEMA), "context"}
    assert len(fields) == 26
    assert all(isinstance(json.loads(value)["context"], dict) for value in clean)
    types = Counter(column.split()[1].partition("(")[0] for column in SCHEMA.split(", "))
    assert types == {
        "string": 9,
        "decimal": 3,
        "timestamp": 2,
        "boolean": 5,
        **dict.fromkeys(("date", "smallint", "int", "bigint", "float", "double"), 1),
    }


def test_fields_are_null_or_missing_and_texts_look_like_numbers(clean):
    found = [json.loads(value) for value in clean]
    assert {name for name in names_of(SCHEMA) if any(name not in each for each in found)} == {
        "ip",
        "note",
        "shipped_at",
    }
    nulls = {name for name in names_of(SCHEMA) if any(each.get(name, "") is None for each in found)}
    assert nulls == {"note", "city", "delivered_on", "points", "gift"}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+\.\d+", each["ip"]) for each in found if "ip" in each)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", each["app_version"]) for each in found)
    assert {each["shipped_at"][19:] for each in found if "shipped_at" in each} == {"+02:00"}


def test_texts_have_unicode_and_every_short_escape_and_no_pair_of_escapes(clean):
    whole = b"".join(clean)
    for escape in (b'\\"', b"\\\\", b"\\n", b"\\t", b"\\r", b"\\/", b"\\u00"):
        assert escape in whole, escape
    assert "ü".encode() in whole
    assert "😀".encode() in whole
    assert not ESCAPED_PAIR.search(whole)


def test_partitions_have_half_a_fifth_and_less_and_each_record_the_offset_that_is_expected():
    ends = Counter[int]()
    for seq, (_, _, partition) in enumerate(events(CLEAN, RECORDS, PARTITIONS)):
        assert place_of(seq) == (partition, ends[partition])
        ends[partition] += 1
    assert [100 * ends[partition] / RECORDS for partition in range(PARTITIONS)] == [50, 20, 10, 10, 5, 5]
    assert CLEAN_RECORDS.shares(PARTITIONS, 2) == [(0,), (1, 2, 3, 4, 5)], "each process has half of the records"


def test_one_of_a_hundred_is_cut_in_half_or_has_a_text_in_an_int(clean):
    odd = [(whole, value) for whole, value in zip(clean, made(BAD), strict=True) if whole != value]
    assert len(odd) == RECORDS // 100 == BAD_RECORDS.rejects(RECORDS)
    cut = [value for whole, value in odd if value == whole[: len(whole) // 2]]
    texts = [json.loads(value) | {"points": 0} for _, value in odd if value not in cut]
    assert (len(cut), len(texts)) == (20, 20)
    right = [json.loads(whole) | {"points": 0} for whole, value in odd if value not in cut]
    assert texts == right
    assert len({seq % 20 for seq, (a, b) in enumerate(zip(clean, made(BAD), strict=True)) if a != b}) > 10


def test_a_tenth_is_written_by_pythons_default_so_that_some_hold_an_escaped_emoji(clean):
    pairs = made(PAIRS)
    assert [json.loads(value) for value in pairs] == [json.loads(value) for value in clean]
    assert sum(value != whole for value, whole in zip(pairs, clean, strict=True)) == RECORDS // 10
    assert sum(map(bool, map(ESCAPED_PAIR.search, pairs))) / RECORDS == pytest.approx(0.036, abs=0.006)


@pytest.mark.parametrize(
    ("weights", "number", "shares"),
    [
        ((1, 1, 1, 1), 2, [(0, 2), (1, 3)]),
        ((1, 1), 3, [(0,), (1,), ()]),
        ((10, 4, 2, 2, 1, 1), 2, [(0,), (1, 2, 3, 4, 5)]),
        ((1, 3, 1, 1), 2, [(1,), (0, 2, 3)]),
    ],
)
def test_shares_are_as_equal_as_can_be(weights, number, shares):
    assert balanced(weights, number) == shares


def test_memory_by_proportional_set_size_counts_shared_pages_once():
    here = family([os.getpid()])
    assert 0 < pss(here[:1]) <= psutil.Process().memory_info().rss


def test_a_ratio_of_two_variants_is_one_of_the_same_rounds_and_every_figure_names_workload_and_engine():
    runs = [
        Run(part, VIEW.name, VIEW.family, APPEND, number, 1, 1_000, seconds, **NAMED)
        for part, took in ((CLEAN, (1.0, 2.0, 9.0)), (BAD, (2.0, 8.0, 10.0)))
        for number, seconds in enumerate(took, 1)
    ]
    for part, size in ((CLEAN, 400.0), (BAD, 500.0)):
        runs += [Run(memory_part(part), VIEW.name, VIEW.family, APPEND, 1, 1, 1_000, 1.0, peak=size)]
    found = {goal.name: goal.found for goal in goals(Found(runs=runs))}
    assert found["bad to clean (Lockstep PerBatch, behind a view)"] == 0.5
    assert found["peak PSS, bad to clean"] == 1.25
    assert found[WRONG] == 0
    text = shown(Found(runs=runs))
    assert "## bad: a workload, 1,000 records" in text
    assert "| Lockstep PerBatch, behind a view | an engine | 125 |" in text


@pytest.mark.parametrize("odd", [{"lost": 1}, {"doubled": 1}, {"rejects": 9, "bad": 10}])
def test_a_run_with_a_wrong_row_or_another_number_of_rejects_is_not_right(odd):
    good = Run(CLEAN, VIEW.name, VIEW.family, APPEND, 1, 1, 1_000, 1.0, lost=0, doubled=0)
    assert good.is_right
    assert not replace(good, **odd).is_right
    assert next(goal.met for goal in goals(Found(runs=[good, replace(good, **odd)])) if goal.name == WRONG) is False


@pytest.mark.long
@pytest.mark.server
def test_the_whole_bench_runs_without_spark_s_peer_and_every_row_is_right(tmp_path):
    words = ["--records", "600", "--rounds", "1", "--warm-ups", "0", "--contenders", "Lockstep,Python,COPY"]
    command = [sys.executable, str(BENCH / "real_records.py"), *words, "--results", str(tmp_path / "real.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    document = json.loads((tmp_path / "real.json").read_text())
    assert {run["lost"] for run in document["runs"]} == {run["doubled"] for run in document["runs"]} == {0}
    assert all(run["engine"] and run["workload"].startswith("real records") for run in document["runs"])
    assert {goal["name"]: goal["found"] for goal in document["goals"]}[
        "bad to clean (Lockstep PerBatch, behind a view)"
    ]
