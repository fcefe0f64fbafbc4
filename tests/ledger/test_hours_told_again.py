"""Tests that an hour whose rows have changed since it was told is told again, as its next revision, and no other is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import COMMITTER, OWNER, READER, transaction
from lockstep.core.changes.person import Person
from lockstep.core.errors import LockTimeout
from lockstep.ledger.views import hours
from lockstep.steps.changes.rename import rename
from support.scenes.erasing import KEY, erase_key

TEN = datetime(2026, 5, 1, 10, tzinfo=UTC)
ELEVEN, TWELVE = TEN + timedelta(hours=1), TEN + timedelta(hours=2)
PER_PARTITION = ", guarantee=PerPartition()"
EVERY = [("append", ""), ("upsert", ""), ("accumulate", ""), ("append", PER_PARTITION)]


@pytest.fixture(autouse=True)
def empty(drill, topic):
    """Puts the drill over a topic without records, so that offsets of the test are all there are."""
    drill.topic = topic(2)


@pytest.fixture(params=EVERY, ids=lambda param: " ".join(param).replace(PER_PARTITION, "per partition").strip())
def here(request, contents, produce):
    """Returns a drill with two batches on partition 0. The hours until ten and until eleven have one of them each."""
    kind, more = request.param
    made = contents(kind, more=more)
    filled(made, produce)
    return made


@pytest.fixture
def appended(contents, produce):
    made = contents()
    filled(made, produce)
    return made


def filled(here, produce, *ends: tuple[datetime, int]) -> None:
    """Commits offsets 0 to 5 and 5 to 10 of partition 0. Records hours over them, by default one for each."""
    for turn in range(2):
        values = [json.dumps({"id": f"{turn}-{n}", "n": n}) for n in range(4)]
        produce(here.drill.topic, [("k", value) for value in [*values, json.dumps({"id": KEY, "n": turn})]], 0)
        here.drain()
    low = 0
    for until, high in ends or ((TEN, 5), (ELEVEN, 10)):
        complete(here, until, low, high)
        low = high


def complete(here, until: datetime, low: int, high: int) -> None:
    """Records a complete hour. The other partitions have nothing in it."""
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("insert into lockstep.complete_hour values ('drill', %s, '{}')", (until,))
        cur.execute(
            "insert into lockstep.hour_offsets select 'drill', %s, stream_id, case partition when 0 then %s else 0 end,"
            " case partition when 0 then %s else 0 end from lockstep.stream",
            (until, low, high),
        )


def tell(here, *ends: datetime, by: str = "run 1") -> list[int | None]:
    with transaction(here.at.conn, COMMITTER) as cur:
        return [hours.tell(cur, "drill", until, by) for until in ends]


def due(here, by: str = "another run") -> list[datetime]:
    with transaction(here.at.conn, READER) as cur:
        return hours.to_tell(cur, "drill", by)


def told(here) -> list[tuple[int, bool]]:
    """Returns, of each hour, how often it was told, and whether it has changed since."""
    with transaction(here.at.conn, READER) as cur:
        return [(hour["revision"], hour["changed"]) for hour in hours.hours(cur, "drill", None)]


def owners(here, until: datetime) -> list[int]:
    with transaction(here.at.conn, READER) as cur:
        return hours.owners_of_hour(cur, "drill", until)


def test_an_hour_is_told_again_once_a_replay_has_replaced_its_rows_and_its_neighbour_is_not(here):
    assert tell(here, TEN, ELEVEN) == [1, 1]
    assert due(here) == []

    here.replay("0:5", "0:10")

    assert (due(here), told(here)) == ([ELEVEN], [(1, False), (1, True)])
    assert tell(here, TEN, ELEVEN, by="run 2") == [None, 2]
    assert (due(here), told(here)) == ([], [(1, False), (2, False)])
    assert (owners(here, TEN), owners(here, ELEVEN)) == ([1], [3])


def test_an_hour_is_told_again_once_an_erasure_has_taken_rows_out(here):
    tell(here, TEN, ELEVEN)
    keeps_the_newest = "Upsert" in (here.drill.home / "drill" / "__init__.py").read_text()

    erase_key(here)

    assert due(here) == ([ELEVEN] if keeps_the_newest else [TEN, ELEVEN])
    assert here.sql("select count(*) from lockstep.hour_changed where erasure_id = 1 and batch_id is null") == [
        (len(due(here)),)
    ]


def test_a_reject_that_loses_its_bytes_changes_no_hour(appended, produce):
    produce(appended.drill.topic, [("k", "{broken " + KEY + "-2")], 0)
    appended.drain()
    complete(appended, TWELVE, 10, 11)
    tell(appended, TEN, ELEVEN, TWELVE)
    assert erase_key(appended, f"{KEY}-2").rows == {"lockstep.reject": 1}
    assert due(appended) == []


def test_a_segment_that_reaches_into_two_hours_changes_both(contents, produce):
    here = contents()
    filled(here, produce, (TEN, 3), (ELEVEN, 3), (TWELVE, 10))
    tell(here, TEN, ELEVEN, TWELVE)

    here.replay("0:0", "0:1")

    assert due(here) == [TEN, TWELVE], "in the hour between them nothing came, and so nothing has changed"


def test_several_changes_between_two_tellings_are_told_once(appended):
    tell(appended, TEN, ELEVEN)
    for _ in range(3):
        appended.replay("0:0", "0:5")
    assert tell(appended, TEN, TEN) == [2, 2]
    appended.replay("0:0", "0:5")
    assert tell(appended, TEN, ELEVEN) == [3, 1]
    assert appended.sql("select revision, batch_id from lockstep.hour_changed order by 1") == [(1, 3), (2, 6)]


def test_a_change_before_the_first_telling_is_told_by_it(appended):
    appended.replay("0:0", "0:5")
    assert (due(appended), told(appended)) == ([TEN, ELEVEN], [(0, False), (0, False)])
    assert (tell(appended, TEN), due(appended)) == ([1], [ELEVEN])


def test_a_preview_or_a_replay_that_failed_changes_no_hour(appended, monkeypatch, tmp_path):
    tell(appended, TEN, ELEVEN)
    appended.preview("replay", "0:0", "0:5")
    (armed := tmp_path / "armed").touch()
    monkeypatch.setenv("LOCKSTEP_FAULT", f"commit.ledger_written=raise@{armed}")
    with pytest.raises(Exception, match=r"commit\.ledger_written"):
        appended.replay("0:0", "0:5")
    assert due(appended) == []


def test_a_task_that_died_tells_the_same_revision_again_and_another_run_tells_nothing(appended):
    tell(appended, TEN, ELEVEN)
    appended.replay("0:0", "0:5")

    assert tell(appended, TEN, TEN, by="run 2") == [2, 2]
    assert tell(appended, TEN, by="run 3") == [None]
    assert due(appended, by="run 2") == [TEN], "the run that told it, cleared, tells it again"
    assert due(appended, by="run 1") == [ELEVEN], "the newest revision is another run's"
    assert appended.sql("select until, revision, told_by from lockstep.hour_told order by 1, 2") == [
        (TEN, 1, "run 1"),
        (TEN, 2, "run 2"),
        (ELEVEN, 1, "run 1"),
    ]


def test_new_hours_come_before_those_that_have_changed(appended):
    tell(appended, TEN)
    appended.replay("0:0", "0:5")
    assert due(appended) == [ELEVEN, TEN]


def test_a_telling_waits_for_a_change_under_way(appended, behind):
    """Else the rows would change right behind the telling, and nothing would say so."""
    offsets = "array_agg(stream_id), array_agg('[0,10)'::int8range)"
    under_way = f"select lockstep.note_change({offsets}, 1, null) from lockstep.stream"
    with (
        behind(under_way),
        pytest.raises(LockTimeout),
        transaction(appended.at.conn, COMMITTER, lock_seconds=0.3) as cur,
    ):
        hours.tell(cur, "drill", TEN, "run 1")
    assert tell(appended, TEN) == [1]
    assert told(appended) == [(1, False), (0, False)]


def test_a_change_waits_for_a_telling_under_way_and_finds_the_hour_told(appended, behind):
    telling = f"insert into lockstep.hour_told (pipeline, until, revision, told_by) values ('drill', '{TEN}', 1, 'me')"
    with behind(telling) as (_, meanwhile):
        replayed = meanwhile(lambda: len(appended.replay("0:0", "0:5")))
    assert int(replayed()) > 0
    assert told(appended) == [(1, True), (0, False)]


def test_a_telling_keeps_its_revisions_under_another_name(appended):
    for _ in range(3):
        tell(appended, TEN)
        appended.replay("0:0", "0:5")
    folder = (appended.drill.home / "drill").rename(appended.drill.home / "shop")
    definition = folder / "__init__.py"
    definition.write_text(definition.read_text().replace('Pipeline("drill"', 'Pipeline("shop"'))

    assert rename(appended.at.conn, "drill", load("shop").pipeline, Person("ann", "a better name")) is True

    with transaction(appended.at.conn, COMMITTER) as cur:
        assert hours.to_tell(cur, "shop", "run 2") == [ELEVEN, TEN]
        assert tuple(*hours.told_again(cur, "shop", 5)) == (TEN, 3, True)
        assert hours.tell(cur, "shop", TEN, "run 2") == 4
        assert tuple(*hours.told_again(cur, "shop", 5)) == (TEN, 4, False)
