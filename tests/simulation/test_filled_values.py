"""Tests that `verify --deep` compares a value that its record lacks with the older record that has it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from lockstep.ledger.migrate import migrate_target
from lockstep.steps.proof.verify import verify
from simulation.mirror import Mirror
from simulation.pipeline import DDL
from simulation.test_unavailable import bad, gone, partition, replay_some, replayed, row
from support.fakes.captured import PLACEHOLDER, CapturedTable

LEFT_OPEN = "with a value that their records do not have"


def contents(scene: Mirror):
    """Returns the check of the rows' values, after every other check has held."""
    checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=True)
    (its,) = [check for check in checks if "what its newest record says" in check.name]
    assert [check for check in checks if not check.ok and check is not its] == []
    return its


def spoil(scene: Mirror, assignment: str) -> None:
    scene.ask(f"update public.house set {assignment} returning 1")


def test_a_spoiled_value_that_an_older_record_gave_is_found(mirror):
    mirror.put(row("c", 1, "a", "first", "AQ=="), row("c", 2, "x", "other"))
    mirror.put(row("u", 1, "b", PLACEHOLDER, PLACEHOLDER))
    assert (contents(mirror).ok, contents(mirror).left_out) == (True, "")
    spoil(mirror, "doc = 'spoiled' where id = 1")
    assert not contents(mirror).ok
    assert "doc is spoiled, its record says first" in contents(mirror).detail


def test_a_value_from_the_same_batch_is_compared(mirror):
    mirror.put(row("c", 1, "a", "one"), row("u", 1, "b", "two"), row("u", 1, "c", PLACEHOLDER, PLACEHOLDER))
    mirror.put(row("u", 1, "d", PLACEHOLDER, PLACEHOLDER))
    assert contents(mirror).ok
    spoil(mirror, "doc = 'one'")
    assert "doc is one, its record says two" in contents(mirror).detail


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_after_a_deletion_the_value_is_null(mirror, in_one_batch):
    before, after = [row("c", 1, "a", "secret"), gone(1)], [row("u", 1, "b", PLACEHOLDER)]
    for records in [[*before, *after]] if in_one_batch else [before, after]:
        mirror.put(*records)
    assert (contents(mirror).ok, contents(mirror).left_out) == (True, "")
    spoil(mirror, "doc = 'secret'")
    assert "doc is secret, its record says null" in contents(mirror).detail


def test_a_value_that_no_record_has_is_null_or_is_left_out(mirror):
    mirror.put(row("u", 1, "a", PLACEHOLDER), row("c", 2, "b", "has"))
    assert (contents(mirror).ok, contents(mirror).left_out) == (True, "")
    spoil(mirror, "doc = 'from before the log' where id = 1")
    its = contents(mirror)
    assert (its.ok, its.left_out) == (True, f"1 rows {LEFT_OPEN}")
    assert (its.share.compared, its.share.of) == (1, 2)


def test_records_that_are_rejects_give_no_value(mirror):
    mirror.put(row("c", 1, "a", "first"))
    mirror.put(bad(1), row("u", 1, "b", PLACEHOLDER))
    assert (contents(mirror).ok, contents(mirror).left_out) == (True, "")


def test_a_replay_of_older_records_raises_no_alarm(mirror):
    mirror.put(row("c", 1, "a", "first"))
    mirror.put(row("u", 1, "b", PLACEHOLDER))
    part = partition(mirror, 1)
    for begin in (0, 1):
        replayed(mirror, {part: begin}, {part: begin + 1})
        assert (contents(mirror).ok, contents(mirror).left_out) == (True, "")


def test_each_of_two_keyed_targets_is_compared_with_its_own_newest_records(database, tmp_path):
    scene = Mirror(database, tmp_path)
    first = scene.pipeline.first
    scene.pipeline = replace(scene.pipeline, target=(first, replace(first, table="public.other")))
    ddl = DDL["mirrored"].replace("public.house ", "public.other ")
    scene.folder = replace(scene.folder, pipeline=scene.pipeline, target_sql=ddl)
    migrate_target(scene.at.conn, scene.folder)
    scene.put(row("c", 1, "a", "first"), row("u", 1, "b", PLACEHOLDER))

    found = verify(scene.at.conn, scene.at.broker, scene.folder, deep=True)

    assert [check.detail for check in found if not check.ok] == []
    assert [check.target for check in found if "what its newest record says" in check.name] == [
        "public.house",
        "public.other",
    ]
    scene.end()


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.long) for each in range(1, 5))])
def test_every_value_of_a_captured_table_is_compared(mirror, seed):
    source = CapturedTable(seed)
    for _ in range(6):
        mirror.put(*source.step(), *source.step())
    its = contents(mirror)
    assert (its.ok, its.left_out, its.share.compared) == (True, "", len(source.rows))
    assert mirror.rows == source.rows


@pytest.mark.parametrize("kind", ["mirrored", "sourced"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.long) for each in range(1, 12))])
def test_old_records_rejects_and_replays_in_any_order_raise_no_alarm(database, tmp_path, kind, seed):
    scene, source = Mirror(database, tmp_path, kind=kind), CapturedTable(seed)
    for _ in range(24):
        source.step()
    pick, read = random.Random(seed), 0  # noqa: S311 - a seed that can be told is the point
    try:
        while read < len(source.sent):
            until = read + pick.randint(1, 9)
            again = [pick.choice(source.sent[:until]) for _ in range(pick.choice([0, 0, 3]))]
            odd = [bad(pick.randint(1, 5)) for _ in range(pick.choice([0, 1]))]
            fresh, read = source.sent[read:until], min(until, len(source.sent))
            scene.put(*(fresh + again if pick.random() < 0.5 else again + fresh), *odd)
            if pick.random() < 0.4:
                replay_some(scene, pick, most=20)
            if read == len(source.sent) or pick.random() < 0.3:
                its = contents(scene)
                assert its.ok, its.detail
        spoil(scene, "doc = 'spoiled'")
        assert not contents(scene).ok
    finally:
        scene.end()
