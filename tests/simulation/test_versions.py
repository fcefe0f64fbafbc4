"""Tests that a history holds every version of a key, each until the next one begins, whatever lane brings its record."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.core.pipeline.definition import PerBatch, PerPartition, Upsert
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.proof.verify import verify
from simulation import machine
from simulation.alone import alone
from simulation.log import BEGINNING, Record
from simulation.pipeline import DDL
from simulation.scene import COMMITTED, Scene, told
from simulation.world import World

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = """select id, n, extract(epoch from valid_from - '2026-01-01Z')::int,
    extract(epoch from valid_until - '2026-01-01Z')::int, _deleted from public.house order by id, _stream, _offset"""
BY_LANE = "select lane, count(*) from lockstep.batch where state = 'committed' group by lane"
BY_RANK = "select id, n, valid_from, valid_until from public.house order by id, valid_from, _offset, _stream"

WRITTEN = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.sampled_from([1, 2, None])), min_size=1, max_size=5
)
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


def play(dsn: str, home: Path, kinds: list[str], guarantee: PerBatch | PerPartition, examples: int) -> dict[str, int]:
    """Plays random histories, and compares each with one pass over all of its records. Counts their committed batches."""
    committed: Counter[str] = Counter()

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(rounds=ROUNDS)
    def histories(rounds: list[tuple]) -> None:
        for kind in kinds:
            with closing(World(dsn, home, kind=kind, guarantee=guarantee, records=4, anew=True)) as world:
                world.stay()
                for left, right, skipped, again in rounds:
                    play_round(world, left, right, skipped=skipped, again=again)
                    assert world.violations() == []
                committed.update(dict(world.ask(BY_LANE)))

    histories()
    return committed


@pytest.fixture
def versions(database, tmp_path):
    scene = Scene(database, tmp_path, kind="versions")
    yield scene
    scene.end()


@pytest.fixture
def dated(database, tmp_path):
    scene = Scene(database, tmp_path, kind="dated")
    yield scene
    scene.end()


def test_a_later_record_ends_all_that_stand_at_its_moment_also_where_time_steps_back(versions):
    wrote(versions, ("a", 1, 10), ("a", 2, 20), ("a", 3, 15), ("b", 1, 5), ("b", None, 9))
    assert told(versions.done) == COMMITTED
    assert versions.ask(VERSIONS) == [
        ("a", 1, 10, 15, False),
        ("a", 2, 20, 20, False),  # what came later in the log says otherwise of its moment
        ("a", 3, 15, None, False),
        ("b", 1, 5, 9, False),
        ("b", None, 9, 9, True),
    ]
    wrote(versions, ("a", 4, 30), ("b", 2, 40))
    assert told(versions.done) == COMMITTED
    assert versions.ask(VERSIONS)[2:] == [
        ("a", 3, 15, 30, False),
        ("a", 4, 30, None, False),
        ("b", 1, 5, 9, False),
        ("b", None, 9, 9, True),
        ("b", 2, 40, None, False),
    ]
    assert versions.violations() == []


def test_a_deletion_is_a_version_also_beside_another_target_and_verify_counts_it(versions):
    newest = Upsert("public.newest", key=("id",))
    versions.pipeline = replace(versions.pipeline, target=(versions.pipeline.first, newest))
    ddl = DDL["keyed"].replace("public.house ", "public.newest ")
    versions.folder = replace(versions.folder, pipeline=versions.pipeline, target_sql=ddl)
    migrate_target(versions.at.conn, versions.folder)
    wrote(versions, ("a", 1, 10), ("b", 2, 20), ("a", None, 30), ("b", 3, 40))

    versions.done()

    assert versions.ask("select count(*), count(*) filter (where _deleted) from public.house") == [(4, 1)]
    assert versions.ask("select id, _offset from public.newest") == [("b", 3)]
    deep = verify(versions.at.conn, versions.at.broker, versions.folder, deep=True)
    coordinates = [check for check in deep if "every record exactly once" in check.name]
    assert len(coordinates) == 3
    assert [check.detail for check in coordinates if not check.ok] == []


def test_of_one_rank_the_later_record_is_the_version_and_what_changes_nothing_is_one_too(dated):
    wrote(dated, ("a", 1, 7), ("a", 2, 7), ("a", 2, 8), ("a", 9, 3))
    wrote(dated, ("a", 5, 7), partition=1)
    assert told(dated.done) == COMMITTED

    assert dated.ask(BY_RANK) == [
        ("a", 9, 3, 7),
        ("a", 1, 7, 7),
        ("a", 5, 7, 7),
        ("a", 2, 7, 8),
        ("a", 2, 8, None),
    ]
    assert dated.violations() == []


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_a_key_in_two_partitions_of_the_log_is_refused_and_named(versions, in_one_batch):
    wrote(versions, ("a", 1, 1))
    if not in_one_batch:
        versions.done()
    wrote(versions, ("a", 2, 2), partition=1)

    assert "public.house: a key stands in two partitions (streams 1 and 2)" in told(versions.done)


def test_a_record_without_a_moment_is_refused_and_named(dated):
    wrote(dated, ("a", 1, 1))
    part = dated.log.parts[0]
    part.records[1], part.end, part.stable_end = Record(b"a", b'{"id": "a", "n": 2, "rank": null}', BEGINNING), 2, 2

    assert "rank of the record at house.v1-0 offset 1 is null, and nothing else says when" in told(dated.done)
    assert dated.ask(BY_RANK) == []


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "drop index house_current",
            "no unique index on (id) where valid_until is null: two current versions of a key could",
        ),
        (
            "alter column n set not null",
            "public.house.n is not null, and the row of a deletion has a key and no other value",
        ),
        ("alter column valid_until set not null", "valid_until is not null, and the current version of a key has none"),
        ("drop column _deleted", "target public.house needs a column _deleted of type boolean"),
        ("alter column valid_from type date", "needs a column valid_from of type timestamp with time zone"),
        ("alter column id drop not null", "key column id of target public.house may be null"),
    ],
    ids=["no-index", "no-nulls", "no-end", "no-deletions", "no-moments", "no-key"],
)
def test_a_table_that_cannot_hold_versions_is_refused_before_anything_is_read(versions, statement, words):
    table = "" if statement.startswith("drop index") else "alter table public.house "
    versions.ask(f"{table}{statement}; select 1")
    wrote(versions, ("a", 1, 1))

    assert words in told(versions.done)
    assert versions.ask("select count(*) from public.house") == [(0,)]


@pytest.mark.parametrize(
    ("begin", "end", "is_deletion", "guard"),
    [
        ("'2026-01-03'", "null", "false", "house_current"),
        ("'2026-01-03'", "'2026-01-02'", "false", "versions_end_after_they_begin"),
        ("'2026-01-03'", "'2026-01-04'", "true", "versions_end_after_they_begin"),
        ("'2026-01-03'", "null", "true", "versions_end_after_they_begin"),
    ],
    ids=["two-current", "ends-before", "deletion-with-time", "deletion-without-end"],
)
def test_the_database_alone_refuses_a_second_current_version_and_an_end_before_the_beginning(
    versions, begin, end, is_deletion, guard
):
    wrote(versions, ("a", 1, 1))
    versions.done()
    version = f"select id, n, factor, 1, 99, 0, _batch, uid, crc, {begin}, {end}, {is_deletion} from public.house"

    assert guard in told(lambda: versions.ask(f"insert into public.house {version} returning 1"))


@pytest.mark.timeout(900)
def test_random_histories_are_what_one_pass_over_their_records_makes(database, tmp_path):
    committed = alone(play, database, tmp_path, ["versions", "dated"], PerBatch(), 3)
    assert min(committed[lane] for lane in ("live", "replay")) > 0, committed


@pytest.mark.long
@pytest.mark.parametrize("guarantee", [PerBatch(), PerPartition()], ids=repr)
@pytest.mark.parametrize("kind", ["versions", "dated"])
@pytest.mark.timeout(7200)
def test_it_holds_for_more_of_them(database, tmp_path, kind, guarantee):
    committed = alone(play, database, tmp_path, [kind], guarantee, 150)
    assert min(committed[lane] for lane in ("live", "replay", "fill")) > 0, committed


@pytest.mark.long
@pytest.mark.parametrize("guarantee", [PerBatch(), PerPartition()], ids=repr)
@pytest.mark.parametrize("kind", ["versions", "dated"])
@pytest.mark.timeout(7200)
def test_whatever_happens_in_whatever_order_every_promise_holds(database, kind, guarantee):
    alone(machine.run, database, kind=kind, guarantee=guarantee, examples=20, steps=60)
