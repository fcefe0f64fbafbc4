"""Tests the step that lets time go on: idle partitions, new ones, and a process that dies on its way."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import psycopg2
import pytest

from lockstep.core.errors import Refusal
from lockstep.core.pipeline.definition import Append, Tumbling, Upsert
from lockstep.core.planning.decisions import Blocked, Caller
from lockstep.faults import ARMED_BY, InjectedFault
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.plan import plan
from lockstep.steps.changes.decisions import pause, unpause
from lockstep.steps.changes.forget import forget, remember
from lockstep.steps.windows import emit as step
from simulation.acts import ME
from simulation.scene import COMMITTED
from support.oracles.folded import not_folded
from windows.conftest import NOON

SETS = "select kind, seq, changes from lockstep.change_set where target = 'public.house' order by change_set_id"
WRITTEN = "select xmin::text from lockstep.event_time union all select xmin::text from lockstep.feed"
IDLE = "select s.partition from lockstep.stream_time t join lockstep.stream s using (stream_id) where t.idle_at is not null"


def seconds_to_now(scene) -> float:
    return (datetime.now(UTC) - scene.ask("select watermark from lockstep.event_time")[0][0]).total_seconds()


def test_e7_a_silent_partition_holds_time_no_longer_than_idle_and_delay(timed):
    scene = timed(idle="5 seconds")
    scene.put(0, 0, 100)
    scene.put(1, 0, 100)
    scene.done()
    assert scene.watermark() == "nothing"
    assert scene.emit() == {"public.house": 4}  # the last windows of a topic that falls silent come out, too
    assert 15 <= seconds_to_now(scene) < 60
    assert scene.violations() == []


def test_a_clock_that_was_stepped_back_ends_no_emit(timed, postgres):
    scene = timed(idle="5 seconds")
    for partition in range(3):
        scene.put(partition, 0, 100)
    scene.done()
    ahead = (
        "set session_replication_role = replica; update lockstep.stream_time set seen = now() + '1 hour' returning 1"
    )
    with closing(psycopg2.connect(postgres, dbname=scene.dsn.rpartition("/")[2])) as conn, conn, conn.cursor() as cur:
        cur.execute(ahead)  # as the clock said then
    scene.put(0, 200)
    scene.done()

    try:
        emitted = scene.emit()
    except Refusal as refused:
        pytest.fail(str(refused))
    assert emitted["public.house"] > 0
    assert scene.violations() == []


def test_a_clock_that_is_stepped_back_between_plan_and_commit_refuses_no_batch(timed, postgres):
    scene = timed(idle="5 seconds")
    now = (datetime.now(UTC) - NOON).total_seconds()
    scene.put(0, now + 1800)
    planned = scene.plan()
    later = "set session_replication_role = replica; update lockstep.batch set planned_at = now() + '1 hour'"
    with closing(psycopg2.connect(postgres, dbname=scene.dsn.rpartition("/")[2])) as conn, conn, conn.cursor() as cur:
        cur.execute(later)  # as the clock said then

    assert scene.on(planned) == COMMITTED
    assert scene.ask("select seen <= now() from lockstep.stream_time where seen is not null") == [(True,)]


def test_a_refusal_of_the_database_to_raise_the_watermark_is_one_line(timed):
    scene = timed(idle="5 seconds")
    scene.put(0, 0, 100)
    scene.done()
    assert scene.ask(
        "alter table lockstep.stream_time add constraint never_idle check (idle_at is null) not valid; select 1"
    )

    with pytest.raises(Refusal, match="the watermark does not rise: refused by never_idle") as no:
        scene.emit()

    assert no.value.next_command == "lockstep doctor"


def test_without_idle_a_silent_partition_holds_time(timed):
    scene = timed()
    scene.put(0, 0, 100)
    scene.put(1, 0, 100)
    scene.done()
    assert scene.emit() == {"public.house": 0}
    assert (scene.watermark(), scene.shown()) == ("nothing", {})


def test_e7_a_partition_is_idle_only_if_nothing_lies_behind_its_position(timed):
    scene = timed(idle="5 seconds")
    for partition in range(3):
        scene.put(partition, 0)
    scene.done()
    scene.put(1, 50)  # waits to be read
    scene.log.parts[2].end += 1  # an open transaction
    scene.emit()
    assert scene.ask(f"{IDLE} order by 1") == [(0,)]
    assert scene.watermark() == -10


def test_e7_a_partition_of_another_log_is_not_idle(timed):
    scene = timed(idle="5 seconds")
    for partition in range(3):
        scene.put(partition, 0)
    scene.done()
    scene.log.topic_id = "another"
    scene.emit()
    assert scene.ask(IDLE) == []


def test_e2_a_partition_that_is_added_begins_with_the_watermark(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 300)
    scene.done()
    scene.log.grow(1)
    scene.put(3, 0)
    scene.done()
    assert scene.watermark() == 290
    assert scene.ask("select distinct extract(epoch from opened_with - '2026-05-01T12:00Z')::int from lockstep.stream_time t"
                     " join lockstep.stream s using (stream_id) where s.retired_at is null") == [(290,)]  # fmt: skip
    assert scene.late() == [(3, 0, -30), (3, 0, 0)]
    assert scene.violations() == []


@pytest.mark.parametrize(
    "fault",
    ["emit.read=raise", "emit.raised=raise", "emit.written=raise", "emit.numbered=raise", "emit.unacknowledged=raise"],
)
def test_e7_whatever_a_dying_step_leaves_the_next_one_goes_on(timed, tmp_path, monkeypatch, fault):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 100)
    scene.done()
    armed = tmp_path / "armed"
    armed.touch()
    monkeypatch.setenv(ARMED_BY, f"{fault}@{armed}")
    with pytest.raises(InjectedFault):
        scene.emit()
    left = 0 if fault.startswith("emit.unacknowledged") else 2
    assert len(scene.shown()) == 2 - left
    assert scene.emit() == {"public.house": left}
    assert {revision for _, revision in scene.shown().values()} == {1}
    assert scene.ask(SETS) == [("batch", 1, 0), ("emission", 2, 2)]
    assert not_folded(scene.ask, "public.house") == []


def test_e7_due_windows_are_shown_so_many_a_transaction_the_oldest_first(timed, monkeypatch):
    monkeypatch.setattr(step, "WINDOWS_A_TRANSACTION", 2)
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 60, 120, 300)
    scene.done()
    assert scene.emit() == {"public.house": 6}
    assert [row for row in scene.ask(SETS) if row[0] == "emission"] == [("emission", seq, 2) for seq in (2, 3, 4)]
    numbers = scene.ask("""select i.window_start from lockstep_feed.public_house i
        join lockstep.change_set s on s.change_set_id = i._change_set order by s.first_number + i._ordinal_in_set""")
    assert numbers == sorted(numbers)
    assert scene.violations() == []


def test_nothing_is_written_where_nothing_is_due(timed):
    scene = timed()
    scene.put(0, 0)
    scene.done()
    before = scene.ask(WRITTEN)
    scene.emit()
    assert scene.ask(WRITTEN) == before


def test_a_paused_pipeline_shows_nothing_and_goes_on_when_it_is_unpaused(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 100)
    scene.done()
    pause(scene.at.conn, "house", ME)
    assert scene.emit() == {"public.house": 0}
    unpause(scene.at.conn, "house", ME)
    assert scene.emit() == {"public.house": 2}


def test_nothing_is_shown_under_another_definition(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 100)
    scene.done()
    same, other = scene.pipeline, replace(scene.pipeline.first, window=Tumbling("1 hour"))
    scene.pipeline = replace(same, target=other)
    assert scene.emit() == {"public.house": 0}
    scene.pipeline = same
    assert scene.emit() == {"public.house": 2}


def test_e7_windows_are_shown_behind_a_forget_that_was_undone_also_on_a_silent_topic(timed):
    scene = timed(idle="5 seconds")
    scene.put(0, 0, 100)
    scene.done()
    forget(scene.at.conn, "house", ME)
    assert scene.emit() == {"public.house": 0}
    remember(scene.at.conn, "house", ME)
    assert scene.emit() == {"public.house": 4}
    assert {revision for _, revision in scene.shown().values()} == {1}
    assert scene.violations() == []


def test_e7_nothing_is_shown_in_a_table_that_another_pipeline_has_taken_meanwhile(timed):
    scene = timed(idle="5 seconds")
    scene.put(0, 0, 100)
    scene.done()
    forget(scene.at.conn, "house", ME)
    scene.ask("insert into lockstep.pipeline (name) values ('other')")
    scene.ask("alter table lockstep.target_owner disable trigger windows_of_one")  # the database refuses it by itself
    scene.ask("insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.house', 'other')")
    remember(scene.at.conn, "house", ME)
    assert scene.emit() == {"public.house": 0}
    assert scene.shown() == {}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"target": Append("public.house"), "event_time": None},
        {"target": Upsert("public.house", key=("id",)), "event_time": None},
    ],
    ids=["as windows", "as an append", "as an upsert"],
)
def test_a_table_with_windows_is_taken_by_no_other_pipeline_behind_a_forget(timed, changes):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 100)
    scene.done()
    scene.emit()
    forget(scene.at.conn, "house", ME)
    other = replace(scene.folder, pipeline=replace(scene.pipeline, name="other", **changes))
    reason = "other: public.house has windows of house, and their event time is that of house"
    following = "name another table, or lockstep forget house --undo --reason ..."

    with pytest.raises((Refusal, psycopg2.Error)) as refused:  # the database refuses by itself, too
        migrate_target(scene.at.conn, other)
    assert [getattr(refused.value, name, None) for name in ("message", "next_command")] == [reason, following]
    planned = plan(scene.at.conn, scene.at.broker, other, Caller("me"), datetime.now(UTC))

    assert planned.decision == Blocked(reason, following)
    assert scene.ask("select pipeline from lockstep.target_owner") == []
    remember(scene.at.conn, "house", ME)
    scene.put(0, 200)
    scene.done()
    assert scene.ask("select pipeline from lockstep.target_owner") == [("house",)]
