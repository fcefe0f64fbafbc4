"""Tests that a feed tells what each commit did to its table, in the order of the commits."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace

import pytest

from lockstep.adapters.postgres import connect
from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import (
    Append,
    AtMostOnce,
    Feed,
    Files,
    Idempotent,
    Json,
    PerBatch,
    PerPartition,
    Pipeline,
    Postgres,
    Upsert,
)
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.core.planning.decisions import Blocked
from lockstep.core.planning.live import changed_definition
from lockstep.ledger.feed.changes import Q
from lockstep.ledger.migrate import migrate_target
from simulation.pipeline import folder_of
from simulation.scene import Scene
from support.oracles.folded import not_folded

KINDS = ["appended", "keyed", "ordered", "accumulated", "two"]
SETS = "select seq, first_number, changes from lockstep.change_set where target = 'public.house' order by seq"
CHANGES = """select s.first_number + i._ordinal_in_set as number, i._change, i._stream, i._offset, i.id
    from lockstep_feed.public_house i join lockstep.change_set s on s.change_set_id = i._change_set
    order by 1, i._change = 'after'"""


@pytest.mark.parametrize("kind", KINDS)
def test_e10_each_commit_is_one_set_of_changes_and_folded_they_are_the_table(followed, kind):
    scene = followed(kind)
    for partition in range(3):
        scene.log.produce(partition, 30)
    for _ in range(3):
        scene.done()
    assert [seq for seq, _, _ in scene.ask(SETS)] == [1, 2, 3]
    ((rows,),) = scene.ask("select count(*) from public.house")
    assert sum(changes for *_, changes in scene.ask(SETS)) >= rows > 4
    assert scene.violations(least=1) == []


def test_e10_a_commit_that_changes_nothing_is_a_set_too(followed):
    scene = followed()
    scene.log.produce(0, 5, kind="garbage")
    scene.done()
    assert scene.ask(SETS) == [(1, 0, 0)]


@pytest.mark.parametrize("guarantee", [PerBatch(), PerPartition()])
@pytest.mark.parametrize("kind", ["appended", "keyed"])
def test_e11_a_replay_of_the_same_code_announces_nothing(followed, kind, guarantee):
    scene = followed(kind, guarantee)
    for partition in range(3):
        scene.log.produce(partition, 12)
    scene.run()
    before = scene.ask(CHANGES)
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    assert scene.ask(CHANGES) == before
    assert len(scene.ask(SETS)) > 1
    assert scene.ask(SETS)[-1][2] == 0
    assert not_folded(scene.ask, "public.house") == []


@pytest.mark.parametrize("kind", ["appended", "keyed", "accumulated"])
def test_e11_a_replay_of_other_code_announces_each_key_once_before_and_after(followed, kind):
    scene = followed(kind)
    scene.log.produce(0, 12)
    scene.run()
    earlier = len(scene.ask(CHANGES))
    scene.factor = 3
    scene.redo("replay", {0: 0}, None)
    news = scene.ask(CHANGES)[earlier:]
    keys = [row[2:4] if kind == "appended" else row[4] for row in news if row[1] == "after"]
    assert {change for _, change, *_ in news} == {"before", "after"}
    assert len(keys) == len(set(keys)) == len(news) / 2 >= 6
    assert scene.violations(least=1) == []


LOOKING = """create table public.seen (seq bigint); grant insert on public.seen to public;
create function public.look() returns trigger language plpgsql security definer as
    $$begin insert into public.seen select last_seq from lockstep.feed; return null; end$$;
create constraint trigger withdrawn_whole after insert on lockstep.commit deferrable initially deferred
    for each row execute function public.look()"""


def test_e12_a_commit_holds_the_feed_only_behind_everything_else(followed):
    scene = followed()
    scene.ask(LOOKING)
    scene.log.produce(0, 5)
    scene.done()
    assert scene.ask("select seq from public.seen") == [(0,)]
    assert scene.ask("select last_seq from lockstep.feed") == [(1,)]


def test_e12_every_constraint_that_waits_for_commit_is_asked_before_the_numbers(followed):
    waiting = {
        name
        for (name,) in followed().ask(
            "select conname::text from pg_constraint where connamespace = 'lockstep'::regnamespace and condeferred"
        )
    }
    assert waiting - set(re.findall(r"lockstep\.(\w+)", Q["ask_deferred"])) == {"change_set_is_numbered"}


def test_e13_a_preview_numbers_nothing_and_leaves_no_set(followed):
    scene = followed()
    scene.log.produce(0, 12)
    scene.run()
    before = scene.ask(CHANGES), scene.ask(SETS), scene.ask("select * from lockstep.feed")
    scene.factor = 3
    assert scene.preview({0: 0})["changed"] > 0
    assert (scene.ask(CHANGES), scene.ask(SETS), scene.ask("select * from lockstep.feed")) == before


def test_e14_a_table_with_rows_begins_its_feed_at_the_snapshot(database, tmp_path):
    scene = Scene(database, tmp_path, kind="keyed")
    scene.log.produce(0, 12)
    scene.run()
    fed(scene)
    scene.log.produce(0, 3)
    scene.log.produce(1, 3)
    scene.run()
    assert scene.ask("select began_empty, last_seq from lockstep.feed") == [(False, 1)]
    assert [change for _, change, *_ in scene.ask(CHANGES)].count("before") == 3
    assert scene.violations(least=1) == []
    scene.end()


def test_a_column_that_the_table_gets_reaches_the_feed(followed):
    scene = followed()
    scene.log.produce(0, 3)
    scene.run()
    scene.ask(
        "set role lockstep_targets; alter table public.house add column at timestamptz, alter column factor type bigint"
    )
    scene.log.produce(0, 3)
    planned = scene.plan()
    assert "its column factor is not that of the feed; lockstep migrate house mends it" in scene.on(planned)
    fed(scene)
    scene.leases_run_out()
    scene.run(retry=True, take_over=True)
    ours = "select array_agg(number), array_agg(at_), array_agg(factor) from lockstep_feed.public_house_from(0, 100)"
    assert scene.ask(ours) == [([0, 1, 2, 3, 4, 5], [None] * 6, [1] * 6)]
    assert scene.ask(
        "select pg_typeof(factor)::text, pg_typeof(at_)::text from lockstep_feed.public_house_from(5, 1)"
    ) == [("bigint", "timestamp with time zone")]
    assert scene.violations(least=1) == []


FILLING = [
    "add column at timestamptz not null default '2026-01-01Z'",
    "add column at text default 'eu'",
    "add column at bigint generated always as (n * 2) stored",
    "add column at double precision default random(); alter table public.house alter at drop default",
]


@pytest.mark.parametrize("column", FILLING)
def test_a_column_that_target_sql_fills_beside_the_feed_is_refused_and_is_not_there(followed, column):
    scene = followed()
    scene.log.produce(0, 3)
    scene.run()
    with pytest.raises(BadDefinition) as refused:
        migrate_target(scene.at.conn, replace(scene.folder, target_sql=f"alter table public.house {column}"))
    assert "house: public.house has values in its new column at, and no change of its feed tells of them" in str(
        refused.value
    )
    assert scene.ask(
        "select count(*) from pg_attribute where attrelid = 'public.house'::regclass and attname = 'at'"
    ) == [(0,)]
    typed = refused.value.next_command.partition(";")[0]
    migrate_target(scene.at.conn, replace(scene.folder, target_sql=typed))
    scene.log.produce(0, 3)
    scene.run()
    assert scene.violations(least=1) == []


def test_a_column_that_was_filled_by_hand_is_refused_until_it_is_made_anew(followed):
    scene = followed()
    scene.log.produce(0, 3)
    scene.run()
    scene.ask("set role lockstep_targets; alter table public.house add column at text default 'eu'")
    with pytest.raises(BadDefinition, match="has values in its new column at") as refused:
        fed(scene)
    made_anew = refused.value.next_command.partition(";")[0]
    assert made_anew == 'alter table public.house drop column if exists "at", add column "at" text'
    scene.ask(f"set role lockstep_targets; {made_anew}")
    fed(scene)
    scene.log.produce(0, 3)
    scene.run()
    assert scene.violations(least=1) == []


def test_a_new_column_of_a_table_without_rows_may_have_a_default(followed):
    scene = followed()
    migrate_target(
        scene.at.conn, replace(scene.folder, target_sql="alter table public.house add column at text default 'eu'")
    )
    scene.log.produce(0, 3)
    scene.run()
    assert scene.ask("select array_agg(at_) from lockstep_feed.public_house_from(0, 100)") == [(["eu"] * 3,)]
    assert scene.violations(least=1) == []


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("create table public.house (id text, _batch int8) partition by list (_batch)", "partitioned by _batch"),
        ("create table public.house (id text) partition by list (id)", "partitioned"),
        (
            "create table public.house (id text); alter table public.house enable row level security",
            "under row security",
        ),
        ("create unlogged table public.house (id text)", "unlogged"),
        (
            "create table public.parent (id text); create table public.house () inherits (public.parent)",
            "a part of another",
        ),
        ("create table public.house (id text, _change text)", "a column _change, which is the feed's own"),
        (
            "create table public.house (id text, at_ text, n int, at text)",
            "columns at and at_, which would both be at_ to readers of the feed",
        ),
    ],
)
def test_a_table_that_no_feed_can_follow_is_refused_in_one_line(database, tmp_path, statement, what):
    folder = folder_of(tmp_path, kind="keyed", records=40, feed=Feed())
    with closing(connect(database)) as conn, pytest.raises(BadDefinition) as refused:
        migrate_target(conn, replace(folder, target_sql=statement))
    assert "house: target.feed: public.house" in str(refused.value)
    assert what in str(refused.value)
    assert "lockstep migrate house" in str(refused.value)


def test_a_definition_without_the_feed_of_its_table_is_refused(followed):
    scene = followed()
    scene.log.produce(0, 3)
    scene.run()
    scene.folder = replace(
        scene.folder, pipeline=replace(scene.pipeline, target=replace(scene.pipeline.first, feed=None))
    )
    with pytest.raises(BadDefinition, match=r"has a feed and the definition has none.*Next: give the target a feed"):
        migrate_target(scene.at.conn, replace(scene.folder, target_sql="select 1"))
    scene.log.produce(0, 3)
    answer = scene.plan().decision
    assert isinstance(answer, Blocked)
    assert "its target was Upsert(feed=(keep=7 days), key=(id), table=public.house) and is now" in answer.reason


def fed(scene: Scene) -> None:
    """Gives the scene's target a feed, or mends it, as `lockstep migrate house` does."""
    scene.pipeline = replace(scene.pipeline, target=replace(scene.pipeline.first, feed=Feed()))
    scene.folder = replace(scene.folder, pipeline=scene.pipeline)
    migrate_target(scene.at.conn, replace(scene.folder, target_sql="select 1"))


@pytest.mark.parametrize("guarantee", [PerBatch(), PerPartition()])
def test_a_pipeline_without_a_feed_calls_no_function_of_feeds(database, tmp_path, guarantee):
    scene = Scene(database, tmp_path, kind="keyed", guarantee=guarantee)
    functions = "lockstep.open_changes, lockstep.net_changes, lockstep.number_changes"
    scene.ask(f"revoke execute on function {functions} from lockstep_committer, lockstep_partition")
    scene.log.produce(0, 5)
    assert scene.run()["committed"] != []
    scene.redo("replay", {0: 0}, None)
    assert scene.ask("select count(*) from public.house") == [(5,)]
    assert scene.ask("select count(*) from lockstep.change_set") == [(0,)]
    scene.end()


@pytest.mark.parametrize("guarantee", [PerBatch(), PerPartition()])
def test_a_feed_that_is_not_made_yet_is_told_in_one_line(database, tmp_path, guarantee):
    scene = Scene(database, tmp_path, kind="keyed", guarantee=guarantee)
    scene.log.produce(0, 5)
    scene.pipeline = replace(scene.pipeline, target=replace(scene.pipeline.first, feed=Feed()))
    scene.folder = replace(scene.folder, pipeline=scene.pipeline)
    answer = scene.on(scene.plan())
    assert (
        "the changes of public.house cannot be announced: it has no feed yet; lockstep migrate house mends it" in answer
    )
    assert answer.count("\n") == 0
    fed(scene)
    scene.run(retry=True, take_over=True)
    assert scene.violations(least=1) == []
    scene.end()


def test_the_definition_without_a_feed_keeps_its_document_and_one_with_it_comes_back_from_it():
    plain = Pipeline("orders", "orders.v1", Json("id string"), Upsert("public.orders", key=("id",)))
    assert "feed" not in str(plain.document())
    told = replace(plain, target=Upsert("public.orders", key=("id",), feed=Feed("12 hours")))
    assert told.document()["target"]["feed"] == {"keep": "12 hours"}
    assert pipeline_of_document(told.document()) == told
    assert not changed_definition(told, [plain.document()])
    assert not changed_definition(replace(told, target=replace(told.first, feed=Feed())), [told.document()])
    assert changed_definition(plain, [told.document()])


NO_DURATIONS = [
    "",
    "7",
    "7d",
    "0 days",
    "-1 days",
    "7 years",
    "1 fortnight",
    "7 days ",
    7,
    None,
    "9999999 days",
    "99999 weeks",
]


@pytest.mark.parametrize("keep", NO_DURATIONS)
def test_a_keep_that_is_no_duration_is_refused_in_one_line(keep):
    with pytest.raises(BadDefinition, match=r"^target.feed: keep is .*: it must be a duration above zero.*$"):
        Feed(keep)


@pytest.mark.parametrize(
    ("target", "more", "what"),
    [
        (Append("public.orders", feed=Feed()), {"guarantee": Idempotent()}, r"under Idempotent\(\)"),
        (Append("public.orders", feed=Feed()), {"guarantee": AtMostOnce(), "store": Files("x")}, "in files in x"),
        (Append("public.orders", feed=Feed()), {"store": Postgres("WAREHOUSE")}, "in store WAREHOUSE"),
    ],
)
def test_a_feed_of_results_that_move_apart_is_refused_at_birth(target, more, what):
    with pytest.raises(BadDefinition, match=f"^target.feed: results {what} do not move in the transaction"):
        Pipeline("orders", "orders.v1", Json("id string"), target, **more)


def test_what_is_no_feed_and_a_name_that_is_too_long_are_refused():
    with pytest.raises(BadDefinition, match=r"^target.feed is '7 days': it must be a Feed"):
        Append("public.orders", feed="7 days")  # type: ignore[arg-type]
    with pytest.raises(BadDefinition, match="longer than 58 letters"):
        Append(f"public.{'o' * 52}", feed=Feed())
    with pytest.raises(BadDefinition, match="the schema lockstep_feed is the ledger's own"):
        Append("lockstep_feed.orders")
