"""Tests that contributions which no replay can take out any more become one for each window, and count as before."""

from __future__ import annotations

import random
from functools import partial

import pytest

from lockstep.core.errors import BadDefinition, LockTimeout
from lockstep.faults import ARMED_BY, InjectedFault
from lockstep.steps.changes.forget import forget
from lockstep.steps.proof.verify import verify
from lockstep.steps.upkeep import fold_windows as fold_windows_step
from lockstep.steps.upkeep.coverage import upkeep
from lockstep.steps.upkeep.fold_windows import fold_windows
from lockstep.steps.windows.look import windows_document
from simulation.acts import ME
from simulation.scene import told
from support.oracles.folded import not_folded

HELD = """select extract(epoch from (c.key ->> 0)::timestamptz - '2026-05-01T12:00Z')::int, c.key ->> 1, c.batch_id,
        s.partition, c.records, c.folded, c."offset", c.totals - 'crcs' - 'uids'
    from lockstep.contribution c join lockstep.stream s using (stream_id) order by 1, 2, 3, 4"""
GIVEN_UP = "select batch_id, records from lockstep.folded order by 1"
ROWS = """select window_start, id, records, numbers, total, least, most, uids, crcs, _revision, _stream, _offset, _ordinal
    from public.house order by 1, 2"""
COUNTED = """select (select coalesce(sum(records), 0) from lockstep.contribution),
    (select count(*) from lockstep.late), (select coalesce(sum(r.written), 0) from lockstep.segment g
        join lockstep.result r using (batch_id, token, stream_id))"""


def whole(scene) -> None:
    """Requires that oracle, feed and every check hold, with the log and without."""
    assert scene.violations() == []
    assert not_folded(scene.ask, "public.house") == []
    for deep in (False, True):
        checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=deep)
        assert {check.name: check.detail for check in checks if not check.ok} == {}
    ((counted, late, written),) = scene.ask(COUNTED)
    assert counted + late == 2 * written


def fold(scene, most: int = 100) -> int:
    folded, left = fold_windows(scene.at.conn, most=most)
    assert left == []
    return folded


@pytest.fixture
def scene(timed):
    """Returns two closed windows, to which two batches of partition 0 and one of partition 1 contribute."""
    scene = timed()
    scene.put(0, 0, 10)
    scene.done()
    scene.put(0, 20)
    scene.put(1, 5)
    scene.done()
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    scene.emit()
    return scene


def trimmed(scene, until: int = 3) -> None:
    """Lets retention take the beginning of partition 0, and a live batch see it."""
    scene.log.trim(0, until)
    scene.put(0, 510)
    scene.done()


def test_e9_contributions_below_log_start_become_one_for_each_closed_window_and_count_as_before(scene):
    trimmed(scene)
    before = scene.ask(ROWS)

    assert fold(scene) == 2

    closed = [row for row in scene.ask(HELD) if row[0] <= 0]
    first = {"records": 3, "numbers": 3, "total": 6, "least": 1, "most": 3}
    other = {"records": 1, "numbers": 1, "total": 4, "least": 4, "most": 4}
    assert closed == [
        (-30, "a", 2, 0, 3, 2, 2, first),
        (-30, "a", 2, 1, 1, 0, 0, other),
        (0, "a", 2, 0, 3, 2, 2, first),
        (0, "a", 2, 1, 1, 0, 0, other),
    ]
    assert scene.ask(GIVEN_UP) == [(1, 4)]
    assert scene.ask(ROWS) == before
    whole(scene)
    assert fold(scene) == 0
    assert [row for row in scene.ask(HELD) if row[0] <= 0] == closed


def test_what_was_folded_goes_into_a_newer_contribution_when_that_is_gone_for_good_too(scene):
    trimmed(scene)
    fold(scene)
    scene.log.trim(1, 1)
    scene.put(1, 520)
    scene.done()

    assert fold(scene) == 2

    whole_window = {"records": 4, "numbers": 4, "total": 10, "least": 1, "most": 4}
    assert [row for row in scene.ask(HELD) if row[0] <= 0] == [
        (-30, "a", 2, 1, 4, 3, 0, whole_window),
        (0, "a", 2, 1, 4, 3, 0, whole_window),
    ]
    assert scene.ask(GIVEN_UP) == [(1, 4), (2, 2)]
    whole(scene)


def test_portion_by_portion_everything_is_folded(scene):
    trimmed(scene)
    assert fold(scene, most=1) == 2
    whole(scene)


def test_windows_of_a_forgotten_pipeline_are_folded(scene):
    trimmed(scene)
    forget(scene.at.conn, "house", ME)
    assert fold_windows(scene.at.conn) == (2, [])
    assert scene.ask(GIVEN_UP) == [(1, 4)]
    whole(scene)


@pytest.mark.parametrize("refusal", ["by the database", "by a lock", "by a definition"])
def test_a_pipeline_whose_windows_cannot_be_folded_is_left_out_with_the_reason_and_others_go_on(
    scene, refusal, monkeypatch
):
    trimmed(scene)
    monkeypatch.setattr(fold_windows_step, "pipelines_with_windows", lambda _: ["a", "house"])
    documents, constraint = fold_windows_step.last_documents, "refused by the test"

    def read(cur, name, batch_id):
        if name == "a" and refusal == "by the database":
            cur.execute(f"do $$ begin raise '{constraint}' using errcode = '23514', constraint = 'a'; end $$")
        if name == "a" and refusal == "by a lock":
            raise LockTimeout(constraint)
        if name == "a":
            raise BadDefinition(constraint)
        return documents(cur, name, batch_id)

    monkeypatch.setattr(fold_windows_step, "last_documents", read)
    folded, left = fold_windows(scene.at.conn)
    assert (folded, len(left)) == (2, 1)
    assert left[0].startswith("windows of a: ")
    assert constraint in left[0]


def test_coverage_that_is_merged_leaves_late_rows_with_their_segments(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    scene.put(0, 0)
    scene.done()
    for second in (510, 520, 530):
        scene.put(0, second)
        scene.done()
    scene.emit()
    assert scene.late() == [(0, 1, -30), (0, 1, 0)]
    scene.log.trim(0, 4)
    assert upkeep(scene.at.conn, scene.at.broker.view, least=2).merged == 3
    whole(scene)


@pytest.mark.parametrize("why", ["still in the log", "not seen by a batch", "not closed", "claimed"])
def test_nothing_is_folded_that_a_replay_may_take_out(timed, why):
    scene = timed(lateness="1 hour" if why == "not closed" else "40 seconds")
    scene.put(0, 0, 10)
    scene.done()
    scene.put(0, 20)
    scene.done()
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    request = scene.asked("replay", {0: 0}, {0: 3}) if why == "claimed" else None
    if request:
        scene.plan_request(request)
    if why != "still in the log":
        scene.log.trim(0, 3)
    if why != "not seen by a batch":
        scene.put(0, 510)
        scene.done()
    before = scene.ask(HELD)

    assert fold(scene) == 0
    assert scene.ask(HELD) == before
    assert scene.ask(GIVEN_UP) == []


def test_a_fill_and_an_admission_still_correct_a_folded_window(timed):
    scene = timed()
    scene.put(0, 0)
    scene.done()
    scene.put(0, 10)
    scene.done()
    scene.put(2, 15, 500)
    scene.skip({2: 2})
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    scene.put(1, 20)
    scene.done()
    scene.emit()
    assert scene.late() == [(1, 1, -30), (1, 1, 0)]
    trimmed(scene, 2)
    assert fold(scene) == 2
    assert scene.shown()[0, "a"] == (2, 1)

    scene.redo("fill", None, None)
    assert scene.shown()[0, "a"] == (3, 2)
    scene.admit()
    assert scene.shown()[0, "a"] == (4, 3)
    whole(scene)
    scene.redo("replay", {1: 0, 2: 0}, None)
    assert scene.shown()[0, "a"] == (4, 3)
    whole(scene)


def test_a_window_tells_its_records_as_before(scene):
    trimmed(scene)
    before = windows_document(scene.at.conn, scene.pipeline, scene.pipeline.first, 10)
    fold(scene)
    assert windows_document(scene.at.conn, scene.pipeline, scene.pipeline.first, 10) == before
    assert [window["records"] for window in before["windows"]][-2:] == [4, 4]


@pytest.mark.parametrize("kind", ["raise", "kill"])
def test_an_upkeep_that_dies_leaves_every_window_whole(scene, tmp_path, monkeypatch, kind):
    trimmed(scene)
    before = scene.ask(HELD)
    if kind == "raise":
        armed = tmp_path / "armed"
        armed.touch()
        monkeypatch.setenv(ARMED_BY, f"upkeep.folded=raise@{armed}")
        with pytest.raises(InjectedFault):
            fold(scene)
    else:
        scene.dying("reap", fault="upkeep.folded=kill")
    assert scene.ask(HELD) == before
    whole(scene)
    assert fold(scene) == 2
    whole(scene)


def test_retention_bounds_the_contributions_whatever_comes(timed):
    """Lets hours pass: records in and out of order, retention behind them, and upkeep now and then."""
    seed = random.SystemRandom().randrange(10**6)
    drawn = random.Random(seed)  # noqa: S311 - a seed that can be told is the point
    scene, most = timed(), 0
    for step in range(60):
        for partition in range(3):
            late = drawn.choice([0, 0, 0, 15, 35, 90])
            scene.put(partition, *(max(0, 20 * step - late + more) for more in range(drawn.randint(1, 3))))
        scene.done()
        scene.emit()
        if drawn.random() < 0.3:
            positions = scene.positions()
            told(partial(scene.redo, "replay", {p: max(0, end - 4) for p, end in positions.items()}, None))
        for partition, end in scene.positions().items():
            scene.log.trim(partition, end - 6)
        if step % 5 == 4:
            fold(scene)
            ((held, windows),) = scene.ask(
                "select (select count(*) from lockstep.contribution), (select count(*) from lockstep.window_state)"
            )
            most = max(most, held - windows)
            assert scene.violations() == [], f"seed {seed}"
    whole(scene)
    assert most < 60, f"seed {seed}: {most} contributions more than windows"
    assert len(scene.ask(GIVEN_UP)) > 30, f"seed {seed}"
