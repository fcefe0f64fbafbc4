"""Tests that `verify` finds what is planted into a feed, and nothing in one that is whole."""

from __future__ import annotations

import psycopg2
import pytest

from lockstep.steps.proof.verify import verify

GAPS, TOLD, FOLDED = "the feed's numbers have no gap", "every commit told each feed", "the table is its feed folded"
ANOTHER = """insert into public.house
    select 'x', n, factor, _stream, _offset, _ordinal, _batch, uid, crc from public.house limit 1"""
PLANTED = {
    "a dropped change": (
        "delete from lockstep_feed.public_house where _ordinal_in_set = 1",
        {GAPS, FOLDED},
    ),
    "a changed image": (
        "update lockstep_feed.public_house set n = 0 where _change = 'after'",
        {FOLDED},
    ),
    "a changed image before": (
        "update lockstep_feed.public_house set n = 0 where _change = 'before'",
        {FOLDED},
    ),
    "exchanged numbers": (
        "drop index lockstep.number_once; update lockstep.change_set set first_number = 3 - first_number",
        {GAPS, FOLDED},
    ),
    "exchanged places": (
        "update lockstep_feed.public_house set _change_set = 3 - _change_set",
        {FOLDED},
    ),
    "a change that was never made": (
        "insert into lockstep_feed.public_house (id, _change, _change_set, _ordinal_in_set) values ('x', 'insert', 2, 3)",
        {GAPS, FOLDED},
    ),
    "changes that lost their row, and the row of the table with them": (
        """update lockstep_feed.public_house set id = null, n = null, _change = 'erased'
        where id = '0-2' and _change <> 'before';
        delete from lockstep_feed.public_house where id = '0-2'; delete from public.house where id = '0-2'""",
        {GAPS},
    ),
    "a change that an erasure names, and that has its row": (
        """insert into lockstep.blank_change select 1, change_set_id, 0 from lockstep.change_set where seq = 2""",
        {GAPS},
    ),
    "a lost set": (
        "delete from lockstep.change_set where seq = 1",
        {GAPS, TOLD, FOLDED},
    ),
    "a row that was changed past the feed": ("update public.house set n = 0", {FOLDED}),
    "a row that was added past the feed": (
        ANOTHER,
        {FOLDED},
    ),
    "a row that was deleted past the feed": (
        "delete from public.house where id = '0-2'",
        {FOLDED},
    ),
    "a trigger that is off": (
        "alter table public.house disable trigger only_by_commit_delete",
        {FOLDED},
    ),
}
OF_FEEDS = {GAPS, TOLD, FOLDED}


@pytest.fixture
def scene(followed):
    """Returns a scene of two commits: three rows, and the same three keys again."""
    scene = followed()
    for _ in range(2):
        scene.log.produce(0, 3, keys=3)
        scene.done()
    assert [row[:2] for row in scene.ask("select seq, changes from lockstep.change_set order by 1")] == [(1, 3), (2, 3)]
    return scene


def failed(scene) -> set[str]:
    checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=False)
    assert {check.name for check in checks} >= {FOLDED}
    return {check.name for check in checks if not check.ok} & OF_FEEDS


def test_a_feed_that_is_whole_passes_every_check(scene):
    checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=False)
    assert [check for check in checks if not check.ok] == []
    assert {check.name for check in checks} >= OF_FEEDS


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found(scene, postgres, what):
    statement, wanted = PLANTED[what]
    database = scene.ask("select current_database()")[0][0]
    with psycopg2.connect(postgres, dbname=database) as conn, conn.cursor() as cur:
        cur.execute("set session_replication_role = replica")
        if what == "a trigger that is off":
            cur.execute("set session_replication_role = origin")
        cur.execute(statement)
        assert cur.rowcount != 0
    conn.close()
    assert failed(scene) == wanted
