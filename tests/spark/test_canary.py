"""A canary runs two real transforms on the records of a committed batch, and both see the batch's facts."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from lockstep.adapters.folders import install_transform, load, with_transform
from lockstep.core.changes.person import Person
from lockstep.core.planning.decisions import Blocked
from lockstep.dev.canary import compare_batches
from lockstep.steps.changes.canary import newest_batches
from lockstep.steps.changes.promote import promote

LIVE = """
from pyspark.sql import functions as F

def transform(records, run):
    return records.where("n > 0").withColumn("batch", F.lit(run.batch_id)).withColumn("at", F.lit(run.planned_at))
"""
# One row less, one row more, and two values that differ, one in its last digit.
CANARY = LIVE.replace("n > 0", "n > 1").replace(
    "return records",
    'return records.withColumn("n", F.when(F.col("n") == 0, 7).when(F.col("n") == 3, 30).otherwise(F.col("n")))'
    '.withColumn("d", F.when(F.col("n") == 4, F.lit("1.000000000000000001").cast("decimal(38,18)")).otherwise(F.col("d")))',
)
MADE = """
from pyspark.sql import functions as F

def transform(records):
    return records.drop("n").withColumn("made", F.lit("{}"))
"""


@pytest.mark.long
def test_a_real_transform_is_tried_beside_the_live_one(pipeline, topic, produce, tmp_path):
    name = topic(partitions=2)
    ddl = "id text primary key, n int, d numeric(38,18), batch bigint, at timestamptz"
    made = pipeline(name, "id string, n int, d decimal(38,18)", ddl, target="Upsert", key="id", transform=LIVE)
    for n in range(5):
        produce(name, [(f"r{n}", json.dumps({"id": f"r{n}", "n": n, "d": "1"}))], partition=n % 2)
    made.run()
    standing = made.ask(f"select id, n, batch, at from public.{made.name} order by id")
    new = tmp_path / "new.py"
    new.write_text(CANARY)
    at, _, folder = made.parts()

    (found,) = compare_batches(
        at, folder, with_transform(folder, new, "lockstep canary"), newest_batches(at, folder, 1)
    )
    at.close()

    assert found.verdicts["live"].ok
    assert found.verdicts["canary"].ok
    assert found.targets == {f"public.{made.name}": {"same": 1, "changed": 2, "only_live": 1, "only_canary": 1}}
    told = {each["kind"]: each for each in found.samples}
    changed = {each["key"]["id"]: each for each in found.samples if each["kind"] == "changed"}
    assert {key: each["differs"] for key, each in changed.items()} == {"r3": ["n"], "r4": ["d"]}
    assert (changed["r3"]["live"]["n"], changed["r3"]["canary"]["n"]) == (3, 30)
    assert (changed["r4"]["live"]["d"], changed["r4"]["canary"]["d"]) == (Decimal(1), Decimal("1.000000000000000001"))
    assert (told["only_live"]["live"]["id"], told["only_live"]["partition"]) == ("r1", 1)
    assert (told["only_canary"]["canary"]["id"], told["only_canary"]["canary"]["n"]) == ("r0", 7)
    ((_, _, batch, _), *_) = standing
    assert {each["batch"] for side in ("live", "canary") for s in found.samples if (each := s[side])} == {batch}
    assert made.ask(f"select id, n, batch, at from public.{made.name} order by id") == standing
    assert load(made.name).transform == LIVE


def test_a_real_transform_is_promoted_and_makes_every_row_from_there_on(pipeline, topic, produce, tmp_path):
    name = topic(partitions=2)
    made = pipeline(name, "id string, n int", "id text, made text", transform=MADE.format("old"))
    new = tmp_path / "new.py"
    new.write_text(MADE.format("new"))

    def send(*numbers: int) -> None:
        for n in numbers:
            produce(name, [(f"r{n}", json.dumps({"id": f"r{n}", "n": n}))], partition=n % 2)

    send(1, 2, 3)
    made.run()
    at, _, folder = made.parts()
    tried = with_transform(folder, new, "lockstep promote")
    promotion, _ = promote(at.conn, tried, Person("ann", "a better name"))
    send(4, 5)
    assert isinstance(made.run().decision, Blocked)
    install_transform(tried)
    made.run()
    at.close()

    assert {each["partition"]: each["offset"] for each in promotion.starts} == {0: 1, 1: 2}
    assert made.ask(
        f"select made, count(*), min(_offset), max(_offset) from public.{made.name} group by 1, _stream % 2 order by 1, 2, 3"
    ) == [
        ("new", 1, 1, 1),
        ("new", 1, 2, 2),
        ("old", 1, 0, 0),
        ("old", 2, 0, 1),
    ]
    assert made.violations() == []
