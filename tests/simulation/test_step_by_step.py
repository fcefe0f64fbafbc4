"""Tests acts between two steps, and between two statements of one.

Locks are held, answers are true, and half-done work is not seen.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from psycopg2 import errors

from lockstep.core.engine import Staging
from lockstep.core.errors import Unreachable
from lockstep.core.planning.decisions import Busy, Caller, Resume, TaskRun
from lockstep.core.staging import StageWork
from lockstep.ledger.batch import commit as ledger
from lockstep.steps.attempt import resolve
from lockstep.steps.attempt.pick_up import pick_up
from lockstep.steps.batch import commit_batch, plan
from lockstep.steps.batch.stage import stage
from simulation.engine import RememberedEngine
from simulation.scene import COMMITTED, told

IN_THE_COMMIT = ["commit.locked", "commit.fence_ok", "commit.counts_ok", "commit.published", "commit.ledger_written"]


def at_the_point(monkeypatch, module, point: str, act) -> list:
    """Does `act` whenever the step reaches the point. Returns the answer of each time."""
    seen: list = []
    monkeypatch.setattr(module, "reach", lambda reached: seen.append(act()) if reached == point else None)
    return seen


def once(error: Exception):
    left = [error]

    def act():
        if left:
            raise left.pop()

    return act


def commits(scene) -> list[tuple]:
    return scene.ask("select distinct batch_id, token from lockstep.commit order by 1")


def test_the_fence_is_read_under_the_batchs_row_lock(scene, monkeypatch):
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())
    seen = at_the_point(
        monkeypatch,
        commit_batch,
        "commit.fence_ok",
        lambda: told(lambda: scene.ask("select 1 from lockstep.batch for no key update nowait")),
    )

    scene.commit(attempt)

    assert [said.partition(":")[0] for said in seen] == [errors.LockNotAvailable.__name__]


def test_a_plan_is_made_under_the_pipelines_row_lock(scene, monkeypatch):
    scene.plan()
    ask = "select 1 from lockstep.pipeline for no key update nowait"
    seen = at_the_point(monkeypatch, plan, "plan.locked", lambda: told(lambda: scene.ask(ask)))

    scene.plan()

    assert [said.partition(":")[0] for said in seen] == [errors.LockNotAvailable.__name__]


@pytest.mark.parametrize("point", IN_THE_COMMIT)
def test_a_process_that_dies_in_the_commit_leaves_nothing_to_be_seen(scene, point):
    scene.log.produce(0, 6)

    assert scene.dying("once", fault=f"{point}=kill").kind == "killed"

    assert (scene.rows(), commits(scene), scene.positions()) == ([], [], {0: 0, 1: 0, 2: 0})


def test_a_commit_that_never_arrived_is_made_by_the_same_attempt(scene, monkeypatch):
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())
    at_the_point(monkeypatch, commit_batch, "commit.ledger_written", once(Unreachable("the line is dead")))

    assert told(lambda: scene.commit(attempt)) == COMMITTED

    assert commits(scene) == [(attempt.batch_id, attempt.token)]
    assert scene.violations() == []


def test_a_commit_that_is_still_on_its_way_cannot_arrive_once_the_answer_was_no(scene, monkeypatch):
    monkeypatch.setattr(resolve, "RESOLVE_LOCK_SECONDS", 0.2)
    monkeypatch.setattr(resolve, "SECONDS_BETWEEN_TRIES", 0.1)
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())
    said = []

    def somebody_asks():
        if not said:
            said.append(resolve.was_committed(scene.other, attempt))

    on_its_way = at_the_point(monkeypatch, commit_batch, "commit.ledger_written", somebody_asks)

    assert told(lambda: scene.commit(attempt)) == COMMITTED

    assert said == [False]
    assert len(on_its_way) == 2  # the asking session ended the first, and it took a second
    assert commits(scene) == [(attempt.batch_id, attempt.token)]


def test_an_attempt_is_told_when_another_has_committed(scene):
    scene.log.produce(0, 6)
    planned = scene.plan()
    old = scene.validated(planned)
    scene.commit(scene.validated(planned, "another"))
    assert told(lambda: resolve.was_committed(scene.at, old)).startswith("Superseded: ")


def test_what_a_zombie_still_copies_reaches_no_other_attempt(scene):
    scene.log.produce(0, 6)
    planned = scene.plan()
    old = scene.staged(planned)
    ranges = planned.decision.ranges
    engine = scene._engine()  # noqa: SLF001 - the world's own

    def goes_on():
        new = scene.staged(planned, "another")
        engine.read(StageWork("house", old.batch_id, old.token, ranges, engine.columns(), nonce=old.nonce), Staging())
        scene.validate(new)
        scene.commit(new)

    assert told(goes_on) == COMMITTED
    assert scene.violations() == []


@pytest.mark.parametrize("world", ["scene", "keyed"])
def test_rows_of_a_try_that_lost_are_not_published(world, request, monkeypatch):
    scene = request.getfixturevalue(world)
    scene.log.produce(0, 6)
    planned = scene.plan()
    monkeypatch.setattr("random.Random.random", lambda _: 0.0)

    assert scene.on(planned) == COMMITTED

    assert scene.ask("select effect ->> 'inserted' from lockstep.attempt") == [("6",)]
    assert scene.violations() == []


def test_a_replay_leaves_the_positions_where_they_are(scene):
    scene.log.produce(0, 6)
    scene.done()
    scene.log.produce(0, 6)
    scene.done()
    stood = scene.positions()
    scene.factor = 3

    answer = scene.on(scene.plan_request(scene.asked("replay", {0: 0}, {0: 6})))

    assert (answer, scene.positions()) == (COMMITTED, stood)
    assert scene.ask("select count(*) from public.house where factor = 3") == [(6,)]


def test_a_preview_changes_no_row_and_no_coverage(scene):
    scene.log.produce(0, 6)
    scene.done()
    before = scene.rows(), scene.ask("select * from lockstep.coverage")
    scene.factor = 2

    found = scene.preview({0: 0})

    assert found["changed"] == 6
    assert (scene.rows(), scene.ask("select * from lockstep.coverage")) == before


def test_a_skip_past_the_stable_end_is_refused(scene):
    scene.log.produce(0, 6)
    scene.plan()
    assert "lies past the stable end 6" in told(lambda: scene.skip({0: 8}))
    assert scene.positions()[0] == 0


def test_a_lease_keeps_others_out_and_is_over_some_day(scene):
    scene.log.produce(0, 6)
    scene.plan("one")
    held = scene.plan("another").decision
    scene.leases_run_out()
    assert (type(held), type(scene.plan("another").decision)) == (Busy, Resume)


def run_of(try_number: int) -> Caller:
    task_run = TaskRun("house", "monday", f"monday-{try_number}", try_number)
    return Caller(task_run.owner, task_run=task_run)


def test_an_older_try_of_a_task_never_supersedes_a_newer_one(scene):
    scene.log.produce(0, 6)
    batch_id = scene.plan("house run monday").batch_id

    def open_attempt(try_number: int):
        return stage(scene.at, scene._engine(), scene.folder, batch_id, run_of(try_number))  # noqa: SLF001 - the world's own

    newer = open_attempt(2)

    assert "later than this one" in told(lambda: open_attempt(1))
    assert scene.ask("select token from lockstep.batch") == [(newer.token,)]


def test_a_run_picks_up_its_own_attempt_and_nobody_elses(scene):
    scene.log.produce(0, 6)
    batch_id = scene.plan("house run monday").batch_id
    attempt = stage(scene.at, scene._engine(), scene.folder, batch_id, run_of(1))  # noqa: SLF001 - the world's own
    other = replace(run_of(1).task_run, dag_run_id="tuesday")

    assert pick_up(scene.at.conn, batch_id, run_of(1).task_run).attempt == attempt
    assert told(lambda: pick_up(scene.at.conn, batch_id, other)).startswith("Superseded: ")


def test_staged_rows_that_the_tasks_did_not_report_are_refused(scene, monkeypatch):
    scene.log.produce(0, 6)
    read = RememberedEngine.read

    def reading(engine, work, sink):
        lines = read(engine, work, sink)
        scene.ask(f"set role lockstep_stager; delete from lockstep_staging.{work.tables[0][0]} where _offset = 3")
        return lines

    monkeypatch.setattr(RememberedEngine, "read", reading)
    planned = scene.plan()
    assert "staged are (rows, rejects) (5, 0), reported were (6, 0)" in told(lambda: scene.staged(planned))
    assert scene.ask("select state, fault from lockstep.attempt") == [("failed", "data")]


@pytest.mark.parametrize("after", ["stage", "validate"])
def test_staged_rows_that_disappear_are_missed_by_the_commit(scene, after):
    scene.log.produce(0, 6)
    attempt = scene.staged(scene.plan()) if after == "stage" else scene.validated(scene.plan())
    scene.ask(f"set role lockstep_stager; delete from lockstep_staging.{attempt.table} where _offset = 3")
    if after == "stage":
        scene.validate(attempt)
    said = "staged are (rows, rejects) (5, 0), validated were (6, 0): the staging table has changed"
    assert said in told(lambda: scene.commit(attempt))
    assert scene.rows() == []


def test_a_flood_of_rejects_is_not_committed(scene):
    scene.pipeline = replace(scene.pipeline, max_reject_share=0.05, limits=replace(scene.pipeline.limits, records=400))
    scene.folder = replace(scene.folder, pipeline=scene.pipeline)
    scene.log.produce(0, 150, kind="garbage")
    scene.log.produce(0, 150)
    assert "150 of 300 records were rejected" in scene.on(scene.plan())
    assert commits(scene) == []


def test_the_witness_is_the_commit_row_and_nothing_else(scene):
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())
    with scene.other.conn as conn, conn.cursor() as cur:
        assert ledger.committed_by(cur, attempt.batch_id) is None
    scene.commit(attempt)
    with scene.other.conn as conn, conn.cursor() as cur:
        assert ledger.committed_by(cur, attempt.batch_id) == attempt
