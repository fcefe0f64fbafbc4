"""Tests a truncated log that keeps its topic id. Records read before the truncation keep their rows and values."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.definition import PerPartition
from lockstep.ledger.views.picture import View, uncovered
from lockstep.ledger.views.reading import read_holes
from simulation.engine import RememberedEngine
from simulation.log import SayingLog
from simulation.scene import Scene
from simulation.world import World

if TYPE_CHECKING:
    from lockstep.core.offsets import TopicView

ROWS = """select s.incarnation, h._offset, h.n from public.house h
    join lockstep.stream s on s.stream_id = h._stream order by 1, 2"""


@pytest.fixture
def world(database, tmp_path):
    world = World(database, tmp_path, anew=True)
    yield world
    world.close()


def truncated_after_a_hundred(world: World) -> list[tuple]:
    """Commits 100 records, cuts the log at 60, retires its stream, and commits 50 other records."""
    world.log.produce(0, 100)
    world.run()
    before = world.ask(ROWS)
    assert [n for _, _, n in before] == list(range(1, 101))
    world.remember()
    world.log.truncate(0, 60)
    assert world.once(take_over=True)["decision"] == "Blocked"
    world.retire()
    world.log.produce(0, 50)
    world.run()
    return before


@pytest.mark.parametrize("stale", [1, 2])
def test_a_batch_is_resumed_when_answers_of_a_stale_broker_end_within_it(scene, monkeypatch, stale):
    scene.log.produce(0, 6)
    planned = scene.plan()
    view, ends = SayingLog.view, [3] * stale + [6]

    def say(broker: SayingLog, topic: str) -> TopicView:
        said = view(broker, topic)
        return replace(said, bounds={0: replace(said.bounds[0], stable_end=ends.pop(0))} if ends else said.bounds)

    monkeypatch.setattr(SayingLog, "view", say)
    monkeypatch.setattr("lockstep.steps.batch.plan.SECONDS_BETWEEN_READINGS", 0)
    assert scene.on(scene.plan()) == "committed"
    assert (len(scene.rows()), ends, scene.violations()) == (6, [], [])
    assert scene.ask("select batch_id from lockstep.batch") == [(planned.batch_id,)]


def rows_of(world: World, incarnation: int) -> list[tuple]:
    return [row for row in world.ask(ROWS) if row[0] == incarnation]


@pytest.mark.parametrize(("begin", "end"), [({0: 0}, {0: 110}), (None, None), ({0: 70}, {0: 90})])
def test_a_replay_leaves_the_rows_of_a_truncated_log_as_they_are(world, begin, end):
    before = truncated_after_a_hundred(world)
    world.factor = 10

    world.redo("replay", begin, end, take_over=True)

    assert rows_of(world, 0) == before
    assert [n for _, offset, n in rows_of(world, 1) if offset in {70, 71}] == [1110, 1120]
    assert world.violations() == []


@pytest.mark.parametrize(("begin", "end"), [({0: 0}, {0: 110}), (None, None)])
def test_a_fill_reads_no_offsets_that_were_skipped_before_a_truncation(world, begin, end):
    world.log.produce(0, 40)
    world.run()
    world.log.produce(0, 60)
    world.skip({0: 100})
    world.remember()
    world.log.truncate(0, 60)
    world.once(take_over=True)
    world.retire()
    world.log.produce(0, 50)
    world.run()
    before = world.ask(ROWS)

    world.redo("fill", begin, end, take_over=True)

    assert world.ask(ROWS) == before
    assert world.violations() == []


def test_a_stream_that_growth_closed_is_still_replayed(world):
    world.log.produce(0, 30)
    world.run()
    world.log.grow(1)
    world.run()
    world.log.produce(0, 10)
    world.run()
    world.factor = 10

    world.redo("replay", {0: 0}, {0: 40}, take_over=True)

    assert world.ask("select count(*), count(distinct incarnation) from lockstep.stream where partition = 0") == [
        (2, 1)
    ]
    assert [n for _, _, n in world.ask(ROWS)] == [10 * n for n in range(1, 41)]
    assert world.violations() == []


@pytest.mark.parametrize("happens", ["recreation", "truncation", "removal"])
def test_the_log_is_retired_while_a_replay_of_a_stream_that_growth_closed_is_unfinished(world, happens):
    world.log.produce(2, 30)
    world.run()
    world.log.grow(1)
    world.log.produce(2, 10)
    world.run()
    world.dying("redo", "replay", {2: 0}, {2: 20}, fault="stage.session_up=kill")
    world.leases_run_out()
    world.remember()
    world.log.truncate(2, 20) if happens == "truncation" else world.log.recreate()
    if happens == "removal":
        del world.log.parts[2:]
    world.log.produce(0, 5)

    assert world.retire()["retired"] >= 1

    assert world.ask("select 1 from lockstep.claim") == []
    assert world.ask("select 1 from lockstep.request where closed_at is null") == []
    world.run()
    assert world.behind() == []
    assert world.violations() == []


def test_a_partition_that_growth_brings_back_is_another_log(world):
    world.log.produce(2, 5)
    world.run()
    world.remember()
    world.log.recreate()
    gone = world.log.parts.pop()
    world.retire()
    world.run()
    world.log.parts.append(type(gone)())
    world.log.produce(2, 3)

    world.run()

    assert world.ask("select incarnation, position from lockstep.stream where partition = 2 order by stream_id") == [
        (0, 5),
        (1, 3),
    ]


@pytest.mark.parametrize("new", [0, 20, 39])
def test_the_successor_in_a_truncated_log_begins_at_the_truncation(world, new):
    world.log.produce(0, 100)
    world.run()
    world.remember()
    world.log.truncate(0, 60)
    world.log.produce(0, new)

    blocked = world.once(take_over=True)
    world.retire()
    world.run()

    assert f"it ends at {60 + new}" in str(blocked["reason"])
    assert starts(world) == [0, 60]
    assert [n for _, _, n in world.ask(ROWS)] == list(range(1, 101 + new))
    assert world.violations() == []


def starts(world: World) -> list[int]:
    return [
        at for (at,) in world.ask("select start_offset from lockstep.stream where partition = 0 order by stream_id")
    ]


def test_what_an_older_incarnation_has_read_is_no_hole(world, database):
    truncated_after_a_hundred(world)
    (stream,) = world.ask("select stream_id from lockstep.stream where partition = 0 and retired_at is null")[0]
    with closing(connect(database)) as conn, transaction(conn, READER) as cur:
        found = read_holes(cur, "house", {stream: 0})
        drawn = uncovered(cur, View((stream,), 0, 110), {stream: (0, 110)})
    assert [hole for hole in found if hole["stream_id"] == stream] == []
    assert drawn == []


@pytest.mark.parametrize("new", [40, 41, 90])
def test_a_log_that_grew_past_the_position_again_is_blocked_and_begun_at_the_truncation(world, new):
    world.log.produce(0, 100)
    world.run()
    world.remember()
    world.log.truncate(0, 60)
    world.log.produce(0, new)

    blocked = world.once(take_over=True)
    for act in ("redo", "skip"):
        with pytest.raises(Refusal, match="lost its end and grew past the position 100 again"):
            getattr(world, act)(*(("replay", {0: 0}, {0: 50}) if act == "redo" else ({0: 100},)))
    before = world.ask("select position from lockstep.stream where partition = 0")
    world.retire()
    world.run()

    assert blocked["decision"] == "Blocked"
    assert "the record at offset 99 has leader epoch 1, and the log was last seen under 0" in str(blocked["reason"])
    assert before == [(100,)]
    assert starts(world) == [0, 60]
    assert [n for _, _, n in world.ask(ROWS)] == list(range(1, 101 + new))
    assert world.violations() == []


def test_a_clean_election_costs_one_comparison(world, monkeypatch):
    world.log.produce(0, 20)
    world.run()
    world.log.elect(0)
    asked = []
    read = SayingLog.records
    monkeypatch.setattr(SayingLog, "records", lambda *a, **k: asked.append(a[2:]) or read(*a, **k))

    world.run()
    world.log.produce(0, 20)
    world.run()

    assert asked == [(0, 19, 20)]
    assert world.ask("select leader_epoch, position from lockstep.stream where partition = 0") == [(1, 40)]
    assert world.violations() == []


def test_a_truncation_after_a_clean_election_is_noticed(world):
    world.log.produce(0, 20)
    world.run()
    world.log.elect(0)
    world.run()
    world.remember()
    world.log.truncate(0, 10)
    world.log.produce(0, 30)

    assert "the record at offset 19 has leader epoch 2" in str(world.once(take_over=True)["reason"])


def test_a_batch_that_is_gone_on_with_while_the_log_is_too_short_hides_no_truncation(world):
    world.log.produce(0, 20)
    world.run()
    world.remember()
    world.log.produce(1, 10)
    world.dying("once", fault="stage.session_up=kill")
    world.log.truncate(0, 10)

    gone_on_with = world.once(take_over=True)
    world.log.produce(0, 30)

    assert gone_on_with["decision"] == "Resume"
    assert "the record at offset 19 has leader epoch 1" in str(world.once(take_over=True)["reason"])


def test_a_record_with_another_timestamp_is_another_record(world):
    """Epochs that began anew prove nothing, as after a restore of the cluster's metadata.

    The times of the segment do.
    """
    world.log.produce(0, 20)
    world.run()
    world.remember()
    world.log.elect(0)
    epoch = world.log.parts[0].leader_epoch
    world.log.truncate(0, 10)
    world.log.parts[0].leader_epoch = 0
    world.log.produce(0, 30)
    world.log.parts[0].leader_epoch = epoch

    blocked = world.once(take_over=True)

    assert "the record at offset 19 has another timestamp" in str(blocked["reason"])
    with pytest.raises(Refusal, match="the point of the truncation is not proved") as refused:
        world.retire()
    assert (
        "--from log-start, or lockstep retire house --partition 0 --reason ... --from OFFSET"
        in refused.value.next_command
    )


def test_a_compacted_record_is_no_sign_of_a_loss(world):
    world.log.produce(0, 20)
    world.run()
    world.log.parts[0].records[19] = None
    world.log.elect(0)

    assert world.once(take_over=True)["decision"] == "Idle"
    assert world.ask("select leader_epoch from lockstep.stream where partition = 0") == [(1,)]


def test_a_trimmed_record_is_no_sign_of_a_loss(world):
    world.log.produce(0, 20)
    world.run()
    world.log.trim(0, 20)
    world.log.elect(0)

    assert world.once(take_over=True)["decision"] == "Idle"


@pytest.mark.parametrize(("start", "begins", "doubled"), [("log-start", 0, 60), (50, 50, 10)])
def test_a_person_may_begin_a_truncated_log_elsewhere(world, start, begins, doubled):
    world.log.produce(0, 100)
    world.run()
    world.remember()
    world.log.truncate(0, 60)
    world.once(take_over=True)
    world.retire(0, start)
    world.run()

    assert starts(world) == [0, begins]
    assert len(world.ask(ROWS)) == 100 + doubled
    detail = "select detail -> 'from' from lockstep.decision where kind = 'retire'"
    assert world.ask(detail) == [(start,)]


@pytest.mark.parametrize("start", [61, 100])
def test_an_offset_past_the_truncated_log_is_refused(world, start):
    world.log.produce(0, 100)
    world.run()
    world.log.truncate(0, 60)
    with pytest.raises(Refusal, match=rf"--from {start} is outside of \[0, 60\]"):
        world.retire(0, start)
    assert starts(world) == [0]


def test_a_stream_without_a_leader_epoch_is_not_guessed_about(world):
    world.log.produce(0, 100)
    world.run()
    world.ask("update lockstep.stream set leader_epoch = null")
    world.log.truncate(0, 60)
    with pytest.raises(Refusal, match=r"no leader epoch was kept for the stream. It lies in \[0, 60\]"):
        world.retire()
    assert starts(world) == [0]


def test_a_truncation_above_an_open_transaction_is_not_guessed_about(world):
    world.log.produce(0, 100)
    world.run()
    world.log.truncate(0, 60)
    world.log.parts[0].stable_end = 50
    with pytest.raises(Refusal, match="a transaction is open from offset 50 on, below the truncation at 60"):
        world.retire()


def test_a_range_whose_end_is_replaced_while_it_is_read_is_not_committed(scene):
    """The log loses its end after the plan and grows over it again before the read is validated."""
    scene.log.produce(0, 30)
    batch = scene.plan()
    scene.log.truncate(0, 10)
    scene.log.produce(0, 40)

    with pytest.raises(Refusal, match="leader epoch went from 0 to 1 since batch"):
        scene.validated(batch)


@pytest.fixture
def by_task(database, tmp_path, monkeypatch):
    """Yields a scene whose tasks commit each range, and the event right before the first of them reads."""
    scene = Scene(database, tmp_path, guarantee=PerPartition())
    happens, read = [], RememberedEngine.read

    def reading(engine, work, sink):
        while happens:
            happens.pop()()
        return read(engine, work, sink)

    monkeypatch.setattr(RememberedEngine, "read", reading)
    yield scene, happens
    scene.end()


def test_a_range_whose_end_is_replaced_while_its_task_reads_it_is_not_committed(by_task):
    """The log loses its end after the attempt is opened. It grows over it again before the task commits the range."""
    scene, happens = by_task
    scene.log.produce(0, 30)
    batch = scene.plan()
    happens.append(lambda: (scene.log.truncate(0, 10), scene.log.produce(0, 40)))

    with pytest.raises(
        Refusal, match=r"house.v1-0 \[0, 30\): the partition's leader epoch went from 0 to 1 since batch"
    ):
        scene.staged(batch)

    assert scene.rows() == []
    assert scene.positions()[0] == 0


def test_a_clean_election_while_a_task_reads_its_range_does_not_stop_its_commit(by_task):
    scene, happens = by_task
    scene.log.produce(0, 30)
    batch = scene.plan()
    happens.append(lambda: scene.log.elect(0))

    scene.commit(scene.validated(batch))

    assert scene.positions()[0] == 30
    assert scene.violations() == []


@pytest.mark.parametrize("lane", ["replay", "skip"])
def test_another_lane_hides_no_truncation_from_a_batch_on_its_way(world, lane):
    world.log.produce(0, 20)
    world.run()
    world.log.produce(0, 20)
    committer = world.start("once", owner="elsewhere", fault="validate.after=stop")
    assert committer.stopped()

    world.remember()
    world.log.truncate(0, 20)
    world.redo("replay", {0: 0}, {0: 20}) if lane == "replay" else world.skip({0: 20})
    committer.go_on()
    assert committer.wait().told["decision"] == "Start"
    world.log.produce(0, 30)

    assert world.once()["decision"] == "Blocked"
    world.retire()
    world.run()
    assert world.violations() == []


def test_a_resume_under_another_leader_takes_the_batch_from_every_older_attempt(world):
    world.log.produce(0, 20)
    world.run()
    world.log.produce(0, 20)
    old = world.start("once", owner="elsewhere", fault="validate.after=stop")
    assert old.stopped()

    world.log.truncate(0, 20)
    world.log.produce(0, 30)
    new = world.start("once", take_over=True, fault="plan.committed=stop")
    assert new.stopped()
    old.go_on()
    assert old.wait().told["superseded"]
    new.go_on()
    assert new.wait().told["decision"] == "Resume"

    world.run()
    assert world.ask("select count(*) from public.house") == [(50,)]
    assert world.violations() == []
