"""Tests that the records of the second workload are what they claim, and that a wrong row of theirs is noticed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pytest

from peers.contender import APPEND, KEYED_LIMIT, Place, Task
from peers.found import Found, Run
from peers.limits import BareCopy
from peers.meter import family, pss
from peers.python_copy import PythonCopy
from peers.real.events import BAD, CLEAN, DDL, PAIRS, PARTITIONS, SCHEMA, events, expect, line, place_of
from peers.real.field import VIEW, memory_part
from peers.real.goals import WRONG, goals
from peers.real.pools import pools
from peers.real.report import shown
from peers.real.workloads import BAD_RECORDS, CLEAN_RECORDS, ESCAPED_PAIRS, NESTED_TEXT, REST, TRANSFORMED
from peers.records import Comparison, compare, count, make_table, produce, rejects
from peers.workload import balanced, names_of

RECORDS = 4_000
# So that figures of two days are figures of the same records.
DIGESTS = {CLEAN: "c1b4d66446bfcd2b", BAD: "113905ff7ba13bf5", PAIRS: "7a9676459f2f7a68"}
ESCAPED_PAIR = re.compile(rb"\\ud8[0-9a-f]{2}\\ud[c-f]|\\ud83[cde]\\ud[c-f]")
CHANGED = {
    "text": "coalesce({0}, '') || 'x'",
    "boolean": "{0} is not true",
    "timestamptz": "coalesce({0}, '2026-01-01Z') + interval '1 microsecond'",
}
NAMED: dict[str, Any] = {"workload": "a workload", "engine": "an engine", "lost": 0, "doubled": 0}
BENCH = Path(__file__).parents[2] / "bench"


def made(kind):
    return [value if isinstance(value, bytes) else value.encode() for _, value, _ in events(kind, RECORDS, PARTITIONS)]


@pytest.fixture(scope="module")
def clean():
    return made(CLEAN)


@pytest.fixture
def place(database, tmp_path):
    found = Place(tmp_path, "nowhere", database, database, 0, Path())
    expect(found, "t", RECORDS, PARTITIONS)
    return found


def said(place, statement):
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(statement)
        return cur.rowcount


def copied(place, workload=CLEAN_RECORDS):
    """Returns the task of a table that holds what was produced."""
    task = Task(
        "t", "written", RECORDS, PARTITIONS, KEYED_LIMIT, (("format", "binary"), ("connections", "2")), workload
    )
    make_table(place, task)
    session = BareCopy()
    session.start(place)
    session.prepare(task)
    session.run(task)
    return task


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


def test_a_record_and_its_line_say_the_same(place):
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(f"create temporary table found (number int, {DDL})")
        lines = ["\t".join((line(seq).split("\t")[0], *line(seq)[:-1].split("\t")[4:-1])) for seq in range(300)]
        cur.copy_expert("copy found from stdin", io.StringIO("\n".join([*lines, ""])))
        cur.execute(
            "select count(*) from found join unnest(%s::int[], %s::jsonb[]) as e (number, value) using (number), "
            "jsonb_populate_record(null::found, value || jsonb_build_object('number', number)) as r where r = found.*",
            (list(range(300)), [value for _, value, _ in events(CLEAN, 300, PARTITIONS)]),
        )
        assert cur.fetchone() == (300,)


def test_what_was_produced_is_neither_lost_nor_doubled(place):
    task = copied(place)
    assert compare(place, task) == count(place, task) == Comparison(0, 0)


def test_a_lost_and_a_doubled_row_are_noticed(place):
    task = copied(place)
    assert said(place, "delete from written where _offset in (3, 5) and _stream = 0") == 2
    names = ", ".join(names_of(SCHEMA))
    again = f"insert into written ({names}, _stream, _offset, _ordinal) select {names}, _stream, _offset, _ordinal + 1"
    assert said(place, f"{again} from written where _stream = 1 and _offset < 3") == 3
    assert compare(place, task) == Comparison(2, 3)


@pytest.mark.parametrize("name", [*names_of(SCHEMA), "_offset"])
def test_a_changed_value_is_noticed_in_each_column(place, name):
    task = copied(place)
    kind = {column.split()[0]: column.split()[1] for column in DDL.replace("\n", " ").split(", ")}.get(name, "bigint")
    change = CHANGED.get(kind, "coalesce({0}, " + ("'2026-01-01'" if kind == "date" else "0") + ") + 1").format(name)
    where = "_stream = 0 and _offset = (select max(_offset) from written where _stream = 0)"
    assert said(place, f"update written set {name} = {change} where {where}") == 1
    assert compare(place, task) == Comparison(1, 1)


def test_a_null_that_becomes_an_empty_text_is_noticed(place):
    task = copied(place)
    changed = said(place, "update written set note = '' where note is null")
    assert changed > RECORDS // 5
    assert compare(place, task) == Comparison(changed, changed)


def test_bad_records_are_expected_nowhere(place):
    task = copied(place, BAD_RECORDS)
    assert compare(place, task) == Comparison(0, 0)
    assert said(place, "select from written") == RECORDS - BAD_RECORDS.rejects(RECORDS)
    assert rejects(place, task, by_lockstep=False) == rejects(place, task, by_lockstep=True) == 0


@pytest.mark.parametrize("workload", [*TRANSFORMED.values(), NESTED_TEXT, REST], ids=lambda each: each.name)
def test_each_table_of_a_transform_is_compared(place, workload):
    task = Task("t", "written", RECORDS, PARTITIONS, APPEND, (), workload)
    make_table(place, task)
    for output in workload.outputs:
        names, some = ", ".join(output.names), output.expected.format(topic="t")
        key, values = "_stream, _ordinal", "0, row_number() over ()"
        if "_offset" not in output.names:
            key, values = f"{key}, _offset", f"{values}, 0"
        insert = f"insert into written{output.suffix} ({names}, {key}) select {names}, {values} from ({some}) as e"
        assert said(place, insert)
    assert compare(place, task) == Comparison(0, 0)
    for output in workload.outputs:
        odd = f"{output.by} = (select min({output.by}) from written{output.suffix})"
        assert said(place, f"delete from written{output.suffix} where {odd}") == 1
    assert compare(place, task) == Comparison(len(workload.outputs), 0)


@pytest.mark.parametrize("workload", [CLEAN_RECORDS, BAD_RECORDS, ESCAPED_PAIRS], ids=lambda each: each.name)
def test_plain_python_writes_rows_and_rejects_of_each_kind(database, kafka, tmp_path, workload):
    place, topic = Place(tmp_path, kafka, database, database, 0, Path()), f"real-{secrets.token_hex(4)}"
    produce(place, workload, topic, RECORDS, PARTITIONS)
    task = Task(topic, "written", RECORDS, PARTITIONS, APPEND, (("rows", "700"),), workload)
    make_table(place, task)
    peer = PythonCopy(2)
    peer.start(place)
    try:
        peer.prepare(task)
        peer.run(task)
        peer.run(task)
    finally:
        peer.end()
    assert compare(place, task) == Comparison(0, 0)
    assert rejects(place, task, by_lockstep=False) == workload.rejects(RECORDS)


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
