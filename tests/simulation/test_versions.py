"""Tests that a history holds every version of a key, each until the next one begins, whatever lane brings its record."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.core.errors import BadData
from lockstep.core.pipeline.definition import PerBatch, PerPartition
from simulation import machine
from simulation.alone import alone
from simulation.log import BEGINNING, Record
from simulation.scene import Scene, told
from simulation.world import World

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = """select id, n, extract(epoch from valid_from - '2026-01-01Z')::int,
    extract(epoch from valid_until - '2026-01-01Z')::int, _deleted from public.house order by id, _stream, _offset"""
BY_LANE = "select lane, count(*) from lockstep.batch where state = 'committed' group by lane"
BY_RANK = "select id, n, valid_from, valid_until from public.house order by id, valid_from, _offset, _stream"

WRITTEN = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.sampled_from([1, 2, None])), min_size=1, max_size=5)
PARTITION, OFFSET, FACTOR = st.integers(0, 1), st.integers(0, 9), st.integers(1, 3)
AGAIN = st.tuples(st.sampled_from(["replay", "replay", "fill"]), PARTITION, OFFSET, OFFSET, FACTOR)
ROUNDS = st.lists(st.tuples(WRITTEN, WRITTEN, st.sampled_from([None, 0, 1]), AGAIN), min_size=2, max_size=4)


def wrote(world: World, *records: tuple[str, int | None, int], partition: int = 0) -> None:
    """Writes records (key, n, second) of a partition. The second is the rank, too. Without n, a record is a deletion."""
    part = world.log.parts[partition]
    for key, n, second in records:
        value = None if n is None else json.dumps({"id": key, "n": n, "rank": second}).encode()
        part.records[part.end] = Record(key.encode(), value, BEGINNING + timedelta(seconds=second))
        part.end = part.stable_end = part.end + 1


def play_round(world: World, *written: list[tuple], skipped: int | None, again: tuple[str, int, int, int, int]) -> None:
    """Writes to two partitions, skips what is new in one of them, and reads the rest. Then reads some offsets again."""
    for partition, records in enumerate(written):
        keyed = [(f"{key}{partition}" if world.kind == "versions" else key, n, at) for key, at, n in records]
        wrote(world, *keyed, partition=partition)
    if skipped in world.positions():
        world.skip({skipped: world.log.parts[skipped].stable_end})
    world.run()
    lane, partition, begin, span, world.factor = again
    world.redo(lane, {partition: begin}, {partition: begin + span + 1})


def play(dsn: str, home: Path, kind: str, guarantee: PerBatch | PerPartition, examples: int) -> dict[str, int]:
    """Plays random histories, and compares each with one pass over all of its records. Counts their committed batches."""
    committed: Counter[str] = Counter()

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(rounds=ROUNDS)
    def histories(rounds: list[tuple]) -> None:
        world = World(dsn, home, kind=kind, guarantee=guarantee, records=4, anew=True)
        with closing(world):
            world.stay()
            for left, right, skipped, again in rounds:
                play_round(world, left, right, skipped=skipped, again=again)
                assert world.violations() == []
            committed.update(dict(world.ask(BY_LANE)))

    histories()
    return committed


@pytest.mark.parametrize("kind", ["versions", "dated"])
@pytest.mark.timeout(900)
def test_random_histories_are_what_one_pass_over_their_records_makes(database, tmp_path, kind):
    committed = alone(play, database, tmp_path, kind, PerBatch(), 5)
    assert min(committed[lane] for lane in ("live", "replay")) > 0, committed


@pytest.mark.long
@pytest.mark.parametrize("guarantee", [PerBatch(), PerPartition()], ids=repr)
@pytest.mark.parametrize("kind", ["versions", "dated"])
@pytest.mark.timeout(7200)
def test_it_holds_for_more_of_them(database, tmp_path, kind, guarantee):
    committed = alone(play, database, tmp_path, kind, guarantee, 150)
    assert min(committed[lane] for lane in ("live", "replay", "fill")) > 0, committed


@pytest.mark.long
@pytest.mark.parametrize("guarantee", [PerBatch(), PerPartition()], ids=repr)
@pytest.mark.parametrize("kind", ["versions", "dated"])
@pytest.mark.timeout(7200)
def test_whatever_happens_in_whatever_order_every_promise_holds(database, kind, guarantee):
    alone(machine.run, database, kind=kind, guarantee=guarantee, examples=20, steps=60)
