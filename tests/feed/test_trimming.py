"""Tests that upkeep trims a feed by what it keeps: whole sets, the oldest first, and nothing that is younger."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.postgres import OWNER, PLANNER, transaction
from lockstep.core.pipeline.definition import Feed
from lockstep.ledger.feed.make import make_feeds
from lockstep.ledger.feed.trim import trim
from lockstep.steps.proof.verify import verify
from lockstep.steps.upkeep.trim_feeds import trim_feeds
from simulation.world import World
from support.oracles.folded import not_folded

AGE = "update lockstep.change_set set at = at - interval '8 days' where seq <= {}"
STANDS = "select kept_from, next_number from lockstep.feed"
KEPT = """select array_agg(distinct s.first_number + i._ordinal_in_set order by s.first_number + i._ordinal_in_set)
    from lockstep_feed.public_house i join lockstep.change_set s on s.change_set_id = i._change_set"""


class Followed(World):
    feed = Feed(keep="7 days")


@pytest.fixture
def scene(followed):
    """Returns a scene of four commits of three changes each."""
    scene = followed()
    for _ in range(4):
        scene.log.produce(0, 3, keys=3)
        scene.done()
    return scene


def aged(ask, postgres, sets: int) -> None:
    ((database,),) = ask("select current_database()")
    with closing(psycopg2.connect(postgres, dbname=database)) as conn, conn, conn.cursor() as cur:
        cur.execute("set session_replication_role = replica")
        cur.execute(AGE.format(sets))


def test_e15_upkeep_trims_sets_that_are_older_than_the_feed_keeps(scene, postgres):
    assert trim_feeds(scene.at.conn) == (0, [])
    aged(scene.ask, postgres, 2)
    assert trim_feeds(scene.at.conn) == (6, [])
    assert scene.ask(STANDS) == [(6, 12)]
    assert scene.ask(KEPT) == [([6, 7, 8, 9, 10, 11],)]
    assert not_folded(scene.ask, "public.house") == []
    assert [check for check in verify(scene.at.conn, scene.at.broker, scene.folder, deep=False) if not check.ok] == []
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match=r"feed_trimmed: the changes .* below number 6"):
        scene.ask("select * from lockstep_feed.public_house_from(5, 1)")
    assert scene.ask("select number, seq from lockstep_feed.public_house_from(6, 1)") == [(6, 3), (6, 3)]


def test_a_reader_past_the_end_is_refused_as_after_a_restore(scene):
    assert scene.ask("select * from lockstep_feed.public_house_from(12, 1)") == []
    with pytest.raises(
        psycopg2.errors.InvalidParameterValue, match=r"feed_ahead: the next change .* 12, and 13 is asked"
    ):
        scene.ask("select * from lockstep_feed.public_house_from(13, 1)")


def test_migrate_draws_the_readers_function_again_and_keeps_who_may_call_it(scene):
    reader = "'lockstep_feed.public_house_from(bigint, int)'::regprocedure"
    older = f"execute replace(pg_get_functiondef({reader}), 'feed_ahead', 'feed_of_before')"
    scene.ask(
        f"reset role; do $$ begin execute 'grant execute on function ' || {reader} || ' to lockstep_stager'; end $$; select 1"
    )
    scene.ask(f"reset role; do $$ begin {older}; end $$; select 1")

    with transaction(scene.at.conn, OWNER) as cur:
        make_feeds(cur, scene.pipeline)

    drawn = "select strpos(prosrc, 'feed_ahead') > 0, has_function_privilege('lockstep_stager', oid, 'execute') from pg_proc"
    assert scene.ask(f"{drawn} where oid = {reader}") == [(True, True)]


def test_e15_portions_are_whole_sets_and_at_least_one(scene, postgres):
    aged(scene.ask, postgres, 3)
    with transaction(scene.at.conn, PLANNER) as cur:
        assert [trim(cur, "public.house", most) for most in (1, 5, 6)] == [3, 3, 3]
    assert scene.ask(STANDS) == [(9, 12)]


def test_e15_a_young_set_keeps_the_older_ones_behind_it(scene, postgres):
    aged(scene.ask, postgres, 4)
    ((database,),) = scene.ask("select current_database()")
    with closing(psycopg2.connect(postgres, dbname=database)) as conn, conn, conn.cursor() as cur:
        cur.execute("set session_replication_role = replica")
        cur.execute("update lockstep.change_set set at = clock_timestamp() where seq = 2")
    assert trim_feeds(scene.at.conn) == (3, [])
    assert scene.ask(STANDS) == [(3, 12)]


@pytest.mark.parametrize("kind", ["kill", "raise"])
def test_e15_an_upkeep_that_dies_has_trimmed_nothing_and_the_next_one_does(database, postgres, tmp_path, kind):
    world = Followed(database, tmp_path, kind="keyed")
    for _ in range(3):
        world.log.produce(0, 3, keys=3)
        world.run()
    aged(world.ask, postgres, 2)
    before = world.ask(STANDS), world.ask(KEPT)
    world.dying("reap", fault=f"upkeep.feed_trimmed={kind}")
    assert (world.ask(STANDS), world.ask(KEPT)) == before
    world.dying("reap")
    assert world.ask(STANDS) == [(6, 9)]
    assert world.violations(least=1) == []
    world.close()
