"""Tests if a machine has what a run needs: each case with its reason, on both sides of the line."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstep.core.health import machine_findings as judge
from lockstep.core.health.findings import Check
from lockstep.core.health.machine_findings import FITTING, MachineFacts
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline

ROOT = Path(__file__).parents[2]
GIB = 2**30
VERSIONS: dict[str, Any] = {
    "pyspark": "4.1.1",
    "pyspark-client": "4.1.1",
    "great-expectations": "1.24.3",
    "confluent-kafka": "2.16.1",
    "apache-airflow": "3.3.2",
}
FACTS = MachineFacts(VERSIONS, None, cores=8, spark_memory=2 * GIB, memory=16 * GIB)


def severity(finding) -> str | None:
    return finding and str(finding.severity)


def test_a_machine_that_was_just_set_up_gives_no_finding():
    assert judge.machine_findings(FACTS) == [None] * 7


@pytest.mark.parametrize(
    ("check", "version", "expected", "reason"),
    [
        (Check.PYSPARK, "4.1.1", None, "the one that is pinned"),
        (Check.PYSPARK, "4.1.1.dev1", None, "a build of it"),
        (Check.PYSPARK, "4.0.0", None, "the oldest that was tested"),
        (Check.PYSPARK, "4.3.0", None, "the newest that was tested"),
        (Check.PYSPARK, "4.4.0", "problem", "newer than any that was tested"),
        (Check.PYSPARK, "3.5.8", "problem", "older"),
        (Check.PYSPARK, None, "warning", "small batches need none"),
        (Check.EXPECTATIONS, None, "warning", "most pipelines have no suite"),
        (Check.EXPECTATIONS, "1.99", None, "its version 1"),
        (Check.EXPECTATIONS, "0.18.22", "problem", "what resolvers fall back to"),
        (Check.EXPECTATIONS, "2.0", "problem", "another version's suites"),
        (Check.CONFLUENT, "2.16.9", None, "the line that was tested"),
        (Check.CONFLUENT, "2.15.0", "problem", "older"),
        (Check.AIRFLOW, "3.3.2", None, "the one that is pinned"),
        (Check.AIRFLOW, "3.1.8", None, "the oldest that was tested"),
        (Check.AIRFLOW, "3.1.7", "warning", "older"),
        (Check.AIRFLOW, "2.11.0", "warning", "the command line works without"),
        (Check.AIRFLOW, None, "warning", "the command line works without"),
    ],
)
def test_packages(check, version, expected, reason):
    facts = replace(FACTS, versions=VERSIONS | {str(check): version})
    assert severity(judge.package(facts, check)) == expected, reason


def test_the_versions_that_fit_are_those_that_are_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    lines = [line for asked in (project["dependencies"], *extras) for line in asked]
    asked = {line.rstrip(".<>=0123456789,"): line.lstrip("abcdefghijklmnopqrstuvwxyz-0123456789") for line in lines}
    for check, (begin, end) in FITTING.items():
        low, high = (".".join(map(str, version)) for version in (begin, end))
        assert asked[check] in {f"=={low}", f">={low},<{high}"}
        if asked[check].startswith("=="):
            assert end == (*begin[:-1], begin[-1] + 1)


@pytest.mark.parametrize(
    ("spark", "client", "expected", "reason"),
    [
        ("4.1.1", "4.1.1", None, "equal ones write the same files"),
        ("4.1.1", "4.1.0", "problem", "a mixture"),
        ("4.1.1", None, None, "nobody else writes into the folder"),
        (None, "4.1.1", "problem", "half of the folder"),
    ],
)
def test_pyspark_and_its_client(spark, client, expected, reason):
    facts = replace(FACTS, versions={"pyspark": spark, "pyspark-client": client})
    assert severity(judge.same_pyspark(facts)) == expected, reason


@pytest.mark.parametrize(
    ("java", "expected", "reason"),
    [(None, None, "there is one"), ("no Java 17 or newer: java is Java 11", "problem", "Spark does not start")],
)
def test_java(java, expected, reason):
    assert severity(judge.java(replace(FACTS, java=java))) == expected, reason


@pytest.mark.parametrize(
    ("spark", "memory", "expected", "reason"),
    [
        (2 * GIB, 16 * GIB, None, "it is there"),
        (16 * GIB, 16 * GIB, None, "just"),
        (17 * GIB, 16 * GIB, "warning", "promised, and not there"),
        (None, 16 * GIB, None, "on a cluster, not here"),
        (2 * GIB, None, None, "how much there is, nobody can tell"),
    ],
)
def test_memory(spark, memory, expected, reason):
    assert severity(judge.memory(replace(FACTS, spark_memory=spark, memory=memory))) == expected, reason


@pytest.mark.parametrize(
    ("limits", "bytes_per_record", "expected", "reason"),
    [
        (Limits(records=1_000), None, [None], "how large a record is, nobody knows yet"),
        (Limits(records=1_000), 2_000_000.0, [None], "2 GB are a bit less than 2 GiB"),
        (Limits(records=1_000), 3_000_000.0, ["warning"], "3 GB are more"),
        (Limits(records=1_000, bytes=GIB), 3_000_000.0, [None], "bytes are the tighter limit"),
        (Limits(records=1_000, bytes=3 * GIB), None, ["warning"], "told by the limit alone"),
        (Limits(records=1_000, bytes=3 * GIB), 1.0, [None], "records are the tighter limit"),
    ],
)
def test_limits(limits, bytes_per_record, expected, reason):
    orders = Pipeline("orders", "orders.v1", Json("id string"), Append("public.orders"), limits=limits)
    found = judge.limits_findings(orders, FACTS, bytes_per_record)
    assert [severity(finding) for finding in found] == expected, reason
    assert judge.limits_findings(orders, replace(FACTS, spark_memory=None), bytes_per_record) == []
