"""Tests that erase takes a key out of windows, of what they add up and of what is late, and that nothing brings it back."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest

from lockstep.core.errors import Refusal
from lockstep.ledger.proof.verify_erased import ERASED_STAYS_OUT
from lockstep.steps.changes.erase import erase
from lockstep.steps.proof.verify import verify
from lockstep.steps.upkeep.reap import reap
from lockstep.steps.windows.admit import admit_late
from simulation.world import ME
from support.oracles.folded import not_folded
from support.scenes.erasing import KEY, holding
from windows.test_folding import fold, trimmed

HELD = [
    "lockstep.contribution.key", "lockstep.late.key", "lockstep.late.row", "lockstep.window_state.key",
    "lockstep_feed.public_house.id", "public.house.id",
]  # fmt: skip
OTHERS = "select window_start, id, records, total, _revision from public.house order by 1, 2"
CLAIMED = "select count(*) from lockstep.contribution"


@pytest.fixture
def scene(timed):
    """Returns windows of two keys: shown ones, one that is not over, and one late record of each key."""
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 80)
        scene.put(partition, 5, key=KEY)
    scene.done()
    scene.emit()
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    scene.put(0, 0, 900)
    scene.put(0, 3, 901, key=KEY)
    scene.done()
    reap(scene.at.conn)
    assert len(scene.late()) == 4
    assert (scene.shown()[0, KEY], scene.shown()[0, "a"]) == ((3, 1), (3, 1))
    return scene


def out(scene, key: str = KEY, column: str | None = None, *, preview: bool = False):
    return erase(scene.at.conn, scene.at.broker, scene.pipeline, key, column, ME, preview=preview)


def whole(scene) -> None:
    for deep in (False, True):
        checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=deep)
        assert {check.name: check.detail for check in checks if not check.ok} == {}
    assert not_folded(scene.ask, "public.house") == []


def test_after_erase_no_window_and_no_late_row_holds_a_byte_of_the_key(scene):
    assert sorted(holding(scene.dsn)) == HELD
    others = [row for row in scene.ask(OTHERS) if row[1] != KEY]
    shown = out(scene, preview=True)
    assert sorted(holding(scene.dsn)) == HELD

    done = out(scene)

    assert done == shown
    assert (done.column, done.left) == ("id", ())
    assert (done.rows["public.house"], done.rows["lockstep.contribution"], done.rows["lockstep.late"]) == (2, 8, 2)
    assert holding(scene.dsn) == []
    assert scene.ask(OTHERS) == others
    assert len(scene.late()) == 2
    whole(scene)
    (told,) = [
        check
        for check in verify(scene.at.conn, scene.at.broker, scene.folder, deep=False)
        if check.name == ERASED_STAYS_OUT
    ]
    assert "8 of lockstep.contribution, 2 of lockstep.late" in told.detail
    assert out(scene).changed is False


def test_a_replay_an_admission_and_an_emission_do_not_bring_the_key_back(scene):
    out(scene)
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    scene.end_requests()
    scene.emit()
    reap(scene.at.conn)
    assert holding(scene.dsn) == []
    assert scene.late() == []
    assert scene.shown()[0, "a"] == (4, 2)
    whole(scene)


def test_an_admission_that_waits_for_its_replay_loses_the_key_too(scene):
    admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    out(scene)
    assert holding(scene.dsn) == []
    scene.admit()
    assert (scene.late(), scene.shown()[0, "a"]) == ([], (4, 2))
    assert holding(scene.dsn) == []
    whole(scene)


def test_folded_contributions_of_the_key_go_with_it(scene):
    scene.admit()
    trimmed(scene, 8)
    assert fold(scene) > 0
    assert scene.ask("select count(*) from lockstep.contribution where folded > 0") != [(0,)]
    out(scene)
    assert holding(scene.dsn) == []
    whole(scene)


def test_a_key_that_comes_back_begins_with_its_first_revision(scene):
    out(scene)
    scene.put(0, 1000, 1100, key=KEY)
    for partition in (1, 2):
        scene.put(partition, 1200)
    scene.put(0, 1200)
    scene.run()
    assert scene.shown()[990, KEY] == (1, 1)
    whole(scene)


def test_a_column_beside_the_key_is_refused_and_the_next_command_names_the_key(scene):
    with pytest.raises(Refusal, match="what one n added to them cannot be told apart; nothing was erased") as refused:
        out(scene, "1", "n")
    assert refused.value.next_command == "lockstep erase house --key KEY --column id --reason ..."
    assert sorted(holding(scene.dsn)) == HELD


UNDECIDED = """insert into lockstep.erasure (pipeline, column_name, as_uuid, digest)
    select pipeline, 'id', false, lockstep.key_digest(salt, %s) from lockstep.erasure_salt; delete from lockstep.{}"""


@pytest.mark.parametrize(("table", "guard"), [("late", "late_stays"), ("window_state", "window_stays")])
def test_the_database_lets_nothing_of_another_key_go_and_nothing_without_a_decision(scene, table, guard):
    out(scene)
    for key, refused_by in ((b"b", guard), (b"a", "erasure_is_decided")):
        with pytest.raises(psycopg2.errors.CheckViolation) as refused:
            scene.ask(UNDECIDED.format(table), key)
        assert refused.value.diag.constraint_name == refused_by
    with pytest.raises(psycopg2.errors.CheckViolation) as refused:
        scene.ask(f"delete from lockstep.{table}")
    assert refused.value.diag.constraint_name == guard


def test_what_is_late_and_holds_the_key_in_another_column_is_told(scene):
    ((number,),) = scene.ask("""select row ->> 'n' from lockstep.late limit 1""")
    scene.put(0, 910, key=number)
    scene.done()
    assert any("rows of lockstep.late, in row" in what for what in out(scene, number).left)


KEPT = "create table lockstep.kept as select * from lockstep.{} where key ->> 1 = %s"
BROUGHT_BACK = {
    "late": "insert into lockstep.late select * from lockstep.kept",
    "contribution": "insert into lockstep.contribution select * from lockstep.kept",
}


@pytest.mark.parametrize("table", BROUGHT_BACK)
def test_what_is_late_or_counts_and_holds_the_key_again_is_named(scene, postgres, table):
    scene.ask(KEPT.format(table), KEY)
    ((place, many),) = scene.ask('select min(array[stream_id, "offset"]), count(*) from lockstep.kept')
    out(scene)
    ((database,),) = scene.ask("select current_database()")
    with closing(psycopg2.connect(postgres, dbname=database)) as conn, conn, conn.cursor() as cur:
        cur.execute("set session_replication_role = replica")
        cur.execute(BROUGHT_BACK[table])

    checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=False)

    (told,) = [check for check in checks if check.name == ERASED_STAYS_OUT]
    what = "late for" if table == "late" else "which counts in"
    assert not told.ok
    assert f"offset {place[1]}, {what} public.house, holds a key that decision 2 erased" in told.detail
    assert told.detail.count("decision 2 erased") == many
