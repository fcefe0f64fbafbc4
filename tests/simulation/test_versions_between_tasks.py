"""Tests that code and ledger of different versions are refused by name, even in the middle of a run.

Nothing is written.
"""

from __future__ import annotations

import threading
import time

import pytest

from lockstep.adapters.postgres import PLANNER, connect, transaction
from lockstep.core.changes.person import Person
from lockstep.core.errors import WrongVersion
from lockstep.core.pipeline.definition import Idempotent, PerBatch, PerPartition
from lockstep.ledger import migrate
from lockstep.ledger.batch import plan
from lockstep.ledger.migrate import Migration, known_migrations
from lockstep.ledger_version import ledger_version
from lockstep.steps.changes import decisions
from lockstep.steps.ranges import commit_range
from simulation.scene import COMMITTED, Scene, told

NEXT = 99_999
NEWER = f"WrongVersion: the ledger is at version {NEXT}, newer than this code's {ledger_version()}: update lockstep"


def migrated(scene: Scene) -> None:
    """Marks the ledger as migrated by a newer release."""
    scene.ask("insert into lockstep.migration (version, name, checksum) values (%s, 'next', 'x')", NEXT)


def counts(scene: Scene) -> list[tuple]:
    """Counts everything that a step could have left behind."""
    names = ("batch", "attempt", "verdict", "commit", "coverage", "decision", "delivery")
    return scene.ask(f"select {', '.join(f'(select count(*) from lockstep.{name})' for name in names)}") + scene.ask(
        "select count(*) from public.house"
    )


@pytest.fixture
def house(database, tmp_path):
    opened = []

    def make(guarantee) -> Scene:
        opened.append(Scene(database, tmp_path, guarantee=guarantee))
        return opened[-1]

    yield make
    for scene in opened:
        scene.end()


def before(scene: Scene, step: str):
    """Goes as far as the step and returns the step, not yet taken."""
    scene.log.produce(0, 6)
    if step == "plan":
        return scene.plan
    if step == "pause":
        scene.plan()
        return lambda: decisions.pause(scene.at.conn, "house", Person("me", "a test"))
    planned = scene.plan()
    if step == "abandon":
        return lambda: decisions.abandon(scene.at.conn, planned.batch_id, Person("me", "a test"))
    if step == "stage":
        return lambda: scene.staged(planned)
    if step == "validate":
        attempt = scene.staged(planned)
        return lambda: scene.validate(attempt)
    attempt = scene.validated(planned)
    return lambda: scene.commit(attempt)


@pytest.mark.parametrize("guarantee", [PerBatch(), Idempotent(), PerPartition()], ids=lambda g: type(g).__name__)
@pytest.mark.parametrize("step", ["plan", "stage", "validate", "commit", "pause", "abandon"])
def test_a_migration_between_two_tasks_stops_the_old_code_by_name(house, guarantee, step):
    scene = house(guarantee)
    act = before(scene, step)
    migrated(scene)
    found = counts(scene)

    said = told(act)

    assert said.startswith(NEWER), said
    assert counts(scene) == found
    scene.ask("delete from lockstep.migration where version = %s", NEXT)
    scene.leases_run_out()
    if step not in {"pause", "abandon"}:
        assert scene.on(scene.plan()) == COMMITTED
        assert scene.ask("select count(*), count(distinct id) from public.house") == [(6, 6)]


def test_a_migration_while_a_task_commits_its_range_stops_the_range(house, monkeypatch):
    scene = house(PerPartition())
    scene.log.produce(0, 6)
    monkeypatch.setattr(commit_range, "reach", lambda point: migrated(scene) if point == "range.published" else None)

    assert told(lambda: scene.staged(scene.plan())).startswith(NEWER)

    assert scene.ask("select count(*) from public.house") == [(0,)]
    assert scene.positions() == {0: 0, 1: 0, 2: 0}


def test_a_loop_of_old_code_ends_behind_a_migration(house, monkeypatch):
    scene = house(PerBatch())
    scene.log.produce(0, 100)  # three batches
    taken = []
    monkeypatch.setattr("lockstep.steps.batch.run.announce", lambda *_: taken.append(1) or migrated(scene))

    with pytest.raises(WrongVersion, match=f"version {NEXT}"):
        scene.run()

    assert taken == [1]
    assert scene.ask("select count(*) from lockstep.batch") == [(1,)]


def test_a_migration_waits_for_whoever_decides_and_is_seen_by_the_next(scene, monkeypatch):
    scene.log.produce(0, 6)
    made_up = [*known_migrations(), Migration(NEXT, "next", "select 1")]
    monkeypatch.setattr(migrate, "known_migrations", lambda: made_up)
    conn = connect(scene.dsn, name="lockstep migrating")
    waiting = (
        "select count(*) as locks from pg_locks where not granted and mode = 'ExclusiveLock'"
        " and database = (select oid from pg_database where datname = current_database())"
    )
    scene.plan()
    with transaction(scene.at.conn, PLANNER) as cur:
        plan.lock_pipeline(cur, "house")
        said: list[str] = []
        thread = threading.Thread(target=lambda: said.append(told(lambda: migrate.migrate(conn))))
        thread.start()
        until, locks = time.monotonic() + 30, 0
        while not locks and time.monotonic() < until:
            time.sleep(0.05)
            cur.execute(waiting)
            locks = cur.fetchone().locks
        assert (locks, said) == (1, [])
        cur.execute("select max(version) as version from lockstep.migration")
        assert cur.fetchone().version == ledger_version()
    thread.join(30)
    conn.close()
    assert told(scene.plan).startswith(NEWER)
