"""Tests that rows which a transform makes in Spark are sent once each, by value, in the order of their records."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal

import pytest
from typer.testing import CliRunner

from feed.sending import read_topic
from lockstep.adapters.folders import load
from lockstep.cli.app import app
from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch.run import until_idle
from lockstep.steps.feed.relay_behind import relay_behind
from lockstep.steps.proof.verify import verify
from spark.conftest import HEAD, Loaded
from support.oracles.folded import not_folded

pytestmark = pytest.mark.long
EACH = 120  # records of a batch
KEYS = 7
# Of each record that is no multiple of five, one row; of odd ones, a second row with the amount taken back.
TRANSFORM = """from pyspark.sql import functions as F
def transform(records):
    kept = records.where("n % 5 <> 0").withColumn("who", F.upper("id"))
    first = kept.withColumn("_ordinal", F.lit(0)).withColumn("share", F.col("amount") / 4)
    second = kept.where("n % 2 = 1").withColumn("_ordinal", F.lit(1)).withColumn("share", -F.col("amount"))
    both = first.unionByName(second).repartition(3)
    return both.select("_stream", "_offset", "_ordinal", "who", "n", F.col("share").cast("decimal(14,4)").alias("share"))
"""


def source_records(begin: int, until: int) -> list[tuple[str, str]]:
    amounts = ((n, f"{n}.{n % 100:02d}") for n in range(begin, until))
    return [(f"k{n % KEYS}", f'{{"id": "k{n % KEYS}", "n": {n}, "amount": {amount}}}') for n, amount in amounts]


def expected(until: int) -> dict[str, list[tuple[int, Decimal]]]:
    """Returns what a clean pass in Python sends: for each key its rows, in order."""
    found: dict[str, list[tuple[int, Decimal]]] = defaultdict(list)
    for n in range(until):
        amount = Decimal(f"{n}.{n % 100:02d}")
        if n % 5:
            found[f"K{n % KEYS}"] += [(n, amount / 4), *([(n, -amount)] if n % 2 else [])]
    return found


@pytest.fixture
def sends(database, kafka, topic, tmp_path, monkeypatch):
    """Returns a pipeline that sends what its transform makes, with the topics that it reads and writes."""
    source, sink = topic(partitions=3), topic(partitions=4)
    folder = tmp_path / "pipelines" / "clean"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        HEAD.replace("Upsert", "Send, Topic, Upsert")
        + f'P = Pipeline(name="clean", topic="{source}", format=Json("id string, n int, amount decimal(12,2)"),\n'
        f'    limits=Limits(records={EACH}), target=Send(Topic("{sink}"), key=("who",)))\n'
    )
    (folder / "transform.py").write_text(TRANSFORM)
    for name, value in (("PIPELINES", str(folder.parent)), ("DSN", database), ("KAFKA", kafka)):
        monkeypatch.setenv(f"LOCKSTEP_{name}", value)
    done = CliRunner().invoke(app, ["migrate", "clean"])
    assert done.exit_code == 0, done.output
    return Loaded("clean", database, kafka), source, sink


def test_e20_rows_of_a_transform_in_spark_are_sent_once_by_value_and_in_the_order_of_their_records(sends, produce):
    loaded, source, sink = sends
    produce(source, source_records(0, 2 * EACH))
    at, spark, folder = loaded.parts()

    list(until_idle(at, spark, folder, Caller("test"), wait=1))
    assert relay_behind(at, folder.pipeline, "test").warnings == []

    assert loaded.ask("select distinct route ->> 'way' from lockstep.attempt") == [("spark",)]
    assert len(loaded.ask("select batch_id from lockstep.batch where state = 'committed'")) >= 2
    found: dict[str, list[tuple[int, Decimal]]] = defaultdict(list)
    for records in read_topic(loaded.kafka, sink).values():
        for key, value, _ in records:
            row = json.loads(value, parse_float=Decimal)
            assert (key.decode(), set(row)) == (row["who"], {"who", "n", "share"})
            found[row["who"]].append((row["n"], Decimal(row["share"])))
    assert found == expected(2 * EACH)
    assert not_folded(loaded.ask, folder.pipeline.first.table) == []
    checks = verify(at.conn, at.broker, load("clean"), deep=True)
    assert [f"{check.name}: {check.detail}" for check in checks if not check.ok] == []
