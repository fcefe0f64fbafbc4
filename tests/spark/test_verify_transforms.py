"""Deep verify runs a pipeline's transform again, on the batches that it made, and compares what it makes with the rows."""

from __future__ import annotations

import json

import pytest

from support.scenes.command_line import CommandLine

DOUBLED = """
from pyspark.sql import functions as F

def transform(records):
    return records.where("n > 0").withColumn("doubled", F.col("n") * 2).drop("n")
"""
KEYED = "id text primary key, doubled int"


@pytest.fixture
def lockstep(monkeypatch, capsys, tmp_path, database, kafka):
    """Returns `lockstep("verify", name)`. Make it before a pipeline, whose folder it then finds."""
    called = CommandLine(monkeypatch, capsys, tmp_path)
    called.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA=kafka)
    return called


def numbered(*numbers: int) -> list[tuple[str, str]]:
    return [(f"r{n}", json.dumps({"id": f"r{n}", "n": n})) for n in numbers]


def spoiled(made, statement: str) -> None:
    made.ask(f"{statement} returning 1")


def test_a_value_that_was_changed_by_hand_is_found_where_a_transform_makes_the_rows(lockstep, pipeline, topic, produce):
    name = topic(partitions=1)
    made = pipeline(name, "id string, n int", KEYED, target="Upsert", key="id", transform=DOUBLED)
    produce(name, numbered(0, 1, 2, 3, 4))
    made.run()
    whole = lockstep("verify", made.name, "--deep")
    assert (whole.code, whole.out.splitlines()[-1]) == (
        0,
        f"{made.name}: every check holds. public.{made.name}: coordinates and contents compared with Kafka.",
    )

    spoiled(made, f"update public.{made.name} set doubled = 7 where id = 'r3'")

    said = lockstep("verify", made.name, "--deep")
    assert said.code == 1
    assert "doubled is 7, its record says 6" in said.out
