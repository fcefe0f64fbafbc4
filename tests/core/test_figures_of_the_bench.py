"""Tests that README.md and docs/comparison.md tell the figures of docs/performance.md and docs/reliability.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MEASURED = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
COMPARISON = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
# What docs/comparison.md calls a program, and what docs/performance.md does.
CALLED = {
    "Lockstep, `PerPartition`": "Lockstep PerPartition",
    "Lockstep, `PerBatch`": "Lockstep PerBatch",
    "Flink SQL, JDBC": "Flink SQL, JDBC",
    "Spark, `foreachBatch` with `AvailableNow`, JDBC": "AvailableNow, JDBC",
    "Kafka Connect, Debezium's JDBC sink": "Kafka Connect, Debezium insert",
    "Python, `msgspec` and COPY, 2 processes": "Python, msgspec and COPY, 2 processes",
}
SHORT = {
    "Kafka Connect": "Kafka Connect, Debezium insert",
    "Flink": "Flink SQL, JDBC",
    "`AvailableNow`": "AvailableNow, JDBC",
    "Python and COPY": "Python, msgspec and COPY, 2 processes",
}


def rows(page, heading):
    """Returns the cells of the first table behind a heading, by the first cell of each row."""
    begin = page.index(heading)
    found = {}
    for line in page[begin:].splitlines():
        if line.startswith("|"):
            first, *cells = (re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", cell).strip() for cell in line[1:-1].split(" | "))
            found[first] = cells
        elif found:
            break
    return found


APPENDED = rows(MEASURED, "## Append")
COSTS = rows(MEASURED, "## What a run costs")


def test_the_comparison_has_the_rates_and_counts_of_the_page():
    told = {name: cells for name, cells in rows(COMPARISON, "| program |").items() if name not in {"program", "---"}}
    assert told.keys() == CALLED.keys()
    for name, (promise, rate, counts, _) in told.items():
        measured = APPENDED[CALLED[name]]
        assert (promise, rate, counts) == (measured[0], measured[1], f"{measured[-2]}, {measured[-1]}"), name


def test_the_comparison_has_the_page_s_day_records_and_cores():
    day, cores = re.search(r"^(\d{4}-\d\d-\d\d)T\S+, (\d+) cores", MEASURED, re.MULTILINE).groups()
    records = re.search(r"^([\d,]+) records, JSON", MEASURED, re.MULTILINE)[1]
    assert f"{day}: one machine with {cores} cores, {records} JSON records" in COMPARISON


def test_the_comparison_has_the_page_s_costs_of_a_run():
    measured = dict(zip(COSTS["seconds"], zip(*(COSTS[name] for name in SHORT.values()), strict=True), strict=True))
    ours = dict(zip(COSTS["seconds"], COSTS["Lockstep PerBatch"], strict=True))
    seen = 0
    for what, records, unit in (
        ("a run that finds nothing", "0 records", "ms"),
        ("1,000 records on a warm engine", "1,000 records", "s"),
    ):
        lockstep, others = rows(COMPARISON, "## Choose Lockstep")[what]
        assert lockstep == told(ours[records], unit)
        for each in others.split(", "):
            name, amount, _ = each.rsplit(" ", 2)
            assert f"{amount} {unit}" == told(measured[records][list(SHORT).index(name)], unit), each
            seen += 1
    assert seen == 5


def told(seconds, unit):
    """Returns seconds as the page tells them."""
    return f"{float(seconds) * 1000:.0f} ms" if unit == "ms" else f"{float(seconds):.2f} s"


def test_the_readme_has_the_rates_of_the_page_in_thousands():
    text = " ".join(README[README.index("## How fast") : README.index("## The rooms")].split())
    told = {
        "Lockstep PerBatch, table by batch": "Lockstep commits {} rows a second per batch into a table by batch",
        "Lockstep PerBatch, behind a view": "{} behind a view",
        "Lockstep PerPartition": "{} per partition",
        "Lockstep PerBatch": "{} per batch by a copy from staging",
        "Flink SQL, JDBC": "Flink with JDBC, writes {} at least once",
        "Python, msgspec and COPY, 2 processes": "`msgspec` and COPY in two processes, writes {}:",
    }
    rates = {name: f"{int(APPENDED[name][1].replace(',', '')) / 1000:.0f},000" for name in told}
    assert [words.format(rates[name]) for name, words in told.items() if words.format(rates[name]) not in text] == []
    assert sorted(re.findall(r"\d+,000\b", text)) == sorted(rates.values())


def test_the_comparison_has_the_rows_that_the_storms_compared():
    number = re.search(r"lost and doubled none of ([\d,]+) rows", COMPARISON)[1].replace(",", "")
    storms = rows(RELIABILITY, "## Figures")["core: a ledger, and a log that is remembered"]
    assert storms[3:6] == [number, "0", "0"]
