"""Tests that an erasure is told to the feeds of its tables, and that no byte of the key is left in them."""

from __future__ import annotations

from contextlib import closing

import pytest

from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.core.errors import LockTimeout, Refusal
from lockstep.faults import InjectedFault
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.proof.verify_erased import ERASED_STAYS_OUT
from lockstep.steps.proof.verify import verify
from support.oracles.folded import not_folded
from support.scenes.erasing import KEY, detail_of, erase_key, feed, holding, wrong
from support.scenes.here import NEWEST, Here, into_feed, unchanged

OF_KEY = """select s.first_number + i._ordinal_in_set, i._change, i.n from lockstep_feed.public_newest i
    join lockstep.change_set s on s.change_set_id = i._change_set where i.id = %s order by 1, 2 desc"""
BLANK = """select s.first_number + i._ordinal_in_set from lockstep_feed.public_newest i
    join lockstep.change_set s on s.change_set_id = i._change_set
    where i._change = 'erased' and num_nonnulls(i.id, i.n, i._stream, i._offset, i._ordinal, i._batch) = 0 order by 1"""
LETTERS = ", primary key (_stream, _offset, _ordinal));"
POINTS = ["erase.rows_gone", "erase.images_blank", "erase.decided"]


@pytest.fixture
def here(drill, produce):
    """Yields the drill, whose table has a feed, behind the person's records and two batches."""
    made = into_feed(drill)
    for _ in range(2):
        feed(produce, drill.topic)
        made.drain()
    yield made
    made.at.close()


def older(value):
    """Returns the record as other code would: a replay tells of the difference."""
    return value | {"n": value["n"] - 5}


def test_erase_is_told_to_the_feed_and_no_byte_of_the_key_is_left_in_it(here):
    here.code = older
    here.replay()
    before = here.drill.ask(OF_KEY, KEY)
    assert [change for _, change, _ in before] == ["insert", "before", "after", "before", "after"]
    ((begin,),) = here.drill.ask("select next_number from lockstep.feed")
    shown = erase_key(here, preview=True)
    assert here.drill.ask(OF_KEY, KEY) == before

    done = erase_key(here)

    assert done == shown
    numbers = sorted({number for number, *_ in before} | {begin})
    assert (done.rows.get("public.newest"), done.rows.get("lockstep_feed.public_newest")) == (1, len(numbers))
    assert done.left == ()
    assert here.drill.ask(BLANK) == [(number,) for number in numbers]
    assert holding(here.drill.dsn) == []
    told = "select changes, why from lockstep.change_set where kind = 'manual'"
    assert here.drill.ask(told) == [(1, "an erasure")]
    kinds = here.drill.ask("select kind, why from lockstep.decision order by decision_id")
    assert kinds == [("manual-change", "an erasure"), ("erase", "letter 12")]
    assert wrong(here) == []
    assert f"{len(numbers)} of lockstep_feed.public_newest" in detail_of(here, ERASED_STAYS_OUT)
    assert not_folded(here.drill.ask, "public.newest") == []

    here.code = unchanged
    here.replay()

    assert here.drill.ask("select count(*) from public.newest where id = %s", KEY) == [(0,)]
    assert here.drill.ask(BLANK) == [(number,) for number in numbers]
    assert holding(here.drill.dsn) == []
    assert wrong(here) == []
    again = erase_key(here)
    assert (again.changed, again.left) == (False, ())


def test_ranges_that_commit_alone_lose_the_key_in_their_feed(drill, produce):
    here = into_feed(drill, ", guarantee=PerPartition()")
    feed(produce, drill.topic)
    here.drain()
    numbers = {number for number, *_ in drill.ask(OF_KEY, KEY)}
    ((begin,),) = drill.ask("select next_number from lockstep.feed")
    assert erase_key(here).left == ()
    assert drill.ask(BLANK) == [(number,) for number in sorted(numbers | {begin})]
    assert (holding(drill.dsn), wrong(here)) == ([], [])
    here.at.close()


def test_each_of_several_targets_loses_the_key_in_its_feed(drill, produce):
    here = Here(drill)
    here.rewrite("import Append,", "import Append, Feed, Upsert,")
    both = 'target=(Upsert("public.newest", key=("id",), feed=Feed()), Append("public.letters", feed=Feed()))'
    here.rewrite('target=Append("public.drill")', both)
    (drill.home / "drill" / "target.sql").write_text(
        NEWEST + NEWEST.replace("newest", "letters").replace(" primary key", "").replace(");", LETTERS)
    )
    migrate_target(here.at.conn, here.folder)
    feed(produce, drill.topic)
    here.drain()
    done = erase_key(here)
    ((newest,),) = drill.ask("select count(*) from lockstep_feed.public_newest where _change = 'erased'")
    assert done.rows["lockstep_feed.public_newest"] == newest >= 2
    assert done.rows["lockstep_feed.public_letters"] == 6  # three records, each inserted and deleted
    assert (done.left, holding(drill.dsn), wrong(here)) == ((), [], [])
    assert not_folded(drill.ask, "public.newest") + not_folded(drill.ask, "public.letters") == []
    here.at.close()


@pytest.mark.parametrize("point", POINTS)
def test_an_erase_that_dies_on_the_way_leaves_every_image(here, monkeypatch, tmp_path, point):
    before, held = here.drill.ask(OF_KEY, KEY), holding(here.drill.dsn)
    (armed := tmp_path / "armed").touch()
    monkeypatch.setenv("LOCKSTEP_FAULT", f"{point}=raise@{armed}")
    with pytest.raises(InjectedFault):
        erase_key(here)
    assert here.drill.ask(OF_KEY, KEY) == before
    assert holding(here.drill.dsn) == held
    assert wrong(here) == []
    assert erase_key(here).left == ()
    assert holding(here.drill.dsn) == []


def test_an_erase_beside_upkeep_that_trims_changes_nothing_and_says_so(here):
    before = here.drill.ask(OF_KEY, KEY)
    with closing(connect(here.drill.dsn)) as other, transaction(other, OWNER) as cur:
        cur.execute("set local idle_in_transaction_session_timeout = 0")
        cur.execute("select pg_advisory_xact_lock(hashtextextended('lockstep.trim public.newest', 0))")
        with pytest.raises(LockTimeout, match="nothing was changed"):
            erase_key(here)
        assert here.drill.ask(OF_KEY, KEY) == before
    assert erase_key(here).left == ()
    assert holding(here.drill.dsn) == []


def test_who_comes_back_is_a_new_fact_in_table_and_feed(here, produce):
    erase_key(here)
    feed(produce, here.drill.topic)
    here.drain()
    assert here.drill.ask("select n from public.newest where id = %s", KEY) == [(12,)]
    assert not_folded(here.drill.ask, "public.newest") == []
    assert wrong(here) == []


@pytest.mark.parametrize("kind", ["appended", "keyed", "accumulated"])
def test_each_kind_of_target_tells_its_feed(followed, kind):
    scene = followed(kind)
    for _ in range(2):
        scene.log.produce(0, 3, keys=3)
        scene.done()
    key = "2" if kind == "accumulated" else "0-2"  # its keys stand in any partition
    ((rows,),) = scene.ask("select count(*) from public.house where id = %s", key)
    assert rows > 0

    scene.erase(key)

    assert scene.ask("select count(*) from public.house where id = %s", key) == [(0,)]
    assert scene.ask("select count(*) from lockstep_feed.public_house where id = %s", key) == [(0,)]
    last = "select changes from lockstep.change_set where kind = 'manual'"
    assert scene.ask(last) == [(rows,)]
    assert not_folded(scene.ask, "public.house") == []
    checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=False)
    assert [(check.name, check.detail) for check in checks if not check.ok] == []


def test_a_table_whose_changes_cannot_be_caught_is_refused_and_nothing_is_erased(here):
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("set local role lockstep_targets; alter table public.newest disable trigger only_by_commit_delete")
    with pytest.raises(Refusal, match=r"no_feed: public.newest: .*; nothing was erased") as refused:
        erase_key(here)
    assert refused.value.next_command == "lockstep migrate drill"
    assert here.drill.ask("select count(*) from public.newest where id = %s", KEY) == [(1,)]
    assert here.drill.ask("select count(*) from lockstep.erasure") == [(0,)]
