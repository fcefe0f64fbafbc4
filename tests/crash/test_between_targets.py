"""Tests that a process that dies between two targets has published neither.

The next one publishes both, and lineage leads to each.
"""

from __future__ import annotations

import signal
import time
from dataclasses import replace

import pytest

from lockstep.core.errors import BadData, Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch import commit_batch as committing
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.proof.verify import verify
from lockstep.steps.upkeep.reap import reap
from support.scenes.drill import said, wait_stopped
from support.scenes.here import Here, into_two

COUNTS = "select (select count(*) from drill), (select count(*) from newest)"


@pytest.fixture
def two(drill):
    """Leads the drill into two targets: every record, and the newest of each id."""
    here = into_two(drill)
    yield here
    here.at.close()


def holds(here: Here) -> bool:
    """Checks that both targets have every record, and that nothing else is left."""
    assert here.drill.ask(COUNTS) == [(150, 150)]
    reap(here.at.conn)
    assert here.drill.ask("select tablename from pg_tables where schemaname = 'lockstep_staging'") == []
    checks = verify(here.at.conn, here.at.broker, here.folder_as_run, deep=True)
    assert [check for check in checks if not check.ok] == []
    return True


@pytest.mark.parametrize("kind", ["kill", "term", "raise"])
def test_who_dies_between_two_targets_has_published_neither(two, kind):
    process = two.drill.start(fault=f"commit.between_targets={kind}")
    process.communicate(timeout=90)
    assert process.returncode != 0
    assert two.drill.ask(COUNTS) == [(0, 0)]
    assert two.drill.committed() == []
    two.run(take_over=True)
    assert holds(two)


def test_a_zombie_between_two_targets_publishes_neither(two):
    zombie = two.drill.start(fault="commit.between_targets=stop")
    wait_stopped(zombie)
    deadline = time.monotonic() + 60
    while not two.drill.committed():
        assert time.monotonic() < deadline
        two.run(take_over=True)
    zombie.send_signal(signal.SIGCONT)
    assert said(zombie) is not None
    assert holds(two)


@pytest.mark.parametrize("point", ["replay.old_deleted", "commit.between_targets"])
def test_who_dies_within_a_replay_has_changed_neither(two, point, monkeypatch):
    two.drain()
    two.code = lambda value: value | {"n": -value["n"]}
    armed = two.drill.home / "armed"
    armed.touch()
    monkeypatch.setenv("LOCKSTEP_FAULT", f"{point}=raise@{armed}")
    asked = two.ask("replay")
    with pytest.raises(Exception, match=point):
        two.work(asked)
    assert two.drill.ask("select sum(d.n) > 0, sum(e.n) > 0 from drill d join newest e using (id)") == [(True, True)]
    two.work(asked, take_over=True)
    assert two.drill.ask("select count(*) from drill d join newest e using (id, n) where n <= 0") == [(150,)]
    assert holds(two)


@pytest.mark.parametrize("place", [0, 1])
def test_a_staging_table_that_has_changed_since_is_not_published(two, place):
    two.plan()
    ((batch,),) = two.drill.ask("select batch_id from lockstep.batch")
    attempt = stage(two.at, two.engine, two.folder, batch, Caller("me"))
    validate(two.at, two.folder, attempt)
    name = attempt.beside(place)
    two.drill.ask(
        f"with gone as (delete from lockstep_staging.{name} where _offset = 3 returning 1) select count(*) from gone"
    )
    with pytest.raises(Refusal, match="the staging table has changed"):
        commit(two.at, two.folder, attempt)
    assert two.drill.ask(COUNTS) == [(0, 0)]


@pytest.mark.parametrize("step", [validate, commit])
def test_rows_moved_from_one_target_to_the_other_are_seen_though_the_sum_is_right(two, step):
    two.plan()
    ((batch,),) = two.drill.ask("select batch_id from lockstep.batch")
    attempt = stage(two.at, two.engine, two.folder, batch, Caller("me"))
    if step is commit:
        validate(two.at, two.folder, attempt)
    first, second = f"lockstep_staging.{attempt.table}", f"lockstep_staging.{attempt.beside(1)}"
    two.drill.ask(
        f"with gone as (delete from {first} where _offset = 3 returning *), come as (insert into {second} select * from gone)"
        " select 1"
    )
    told = r"rows are staged for public\.drill, \d+ were told"
    # The commit compares digests first, and a row has another number in another target.
    with pytest.raises(Refusal, match=told if step is validate else "have changed in staging") as refused:
        step(two.at, two.folder, attempt)
    assert isinstance(refused.value, BadData) == (step is validate)
    assert two.drill.ask(COUNTS) == [(0, 0)]


@pytest.mark.parametrize(
    "said", ["changed: target", r"was staged for public\.drill, public\.newest, and the definition has public\.drill"]
)
def test_a_definition_that_lost_a_target_since_it_was_staged_is_not_published(two, said, monkeypatch):
    two.plan()
    ((batch,),) = two.drill.ask("select batch_id from lockstep.batch")
    attempt = stage(two.at, two.engine, two.folder, batch, Caller("me"))
    validate(two.at, two.folder, attempt)
    lost = replace(two.folder, pipeline=two.folder.pipeline.each()[0])
    if said != "changed: target":  # the second net, with the first one out of play
        monkeypatch.setattr(committing, "require_same_definition", lambda *_: None)
    with pytest.raises(Refusal, match=said):
        commit(two.at, lost, attempt)
    assert two.drill.ask(COUNTS) == [(0, 0)]
