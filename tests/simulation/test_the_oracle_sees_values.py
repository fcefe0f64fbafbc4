"""Tests the checker against forged tables: right coordinates do not hide wrong values."""

from __future__ import annotations

from functools import partial

import pytest

from lockstep.core.pipeline.definition import AtLeastOnce, AtMostOnce, Idempotent, PerPartition
from simulation.log import Record, sealed
from simulation.scene import Scene
from simulation.storm import storm
from simulation.values import becomes
from simulation.world import World
from support.oracles.checker import look

SWAPPED = """update public.house h set (id, n, uid, crc) = (o.id, o.n, o.uid, o.crc) from public.house o
    where (h._stream, h._offset) in ((1, 2), (1, 3)) and (o._stream, o._offset) in ((1, 2), (1, 3))
    and o._offset <> h._offset"""
REJECTED = """with gone as (delete from public.house where _stream = 1 and _offset = 3 returning *) insert into lockstep.reject
    select _stream, _offset, _batch, now(), 'k', convert_to('v', 'utf8'), null, 'forged' from gone"""
ACCEPTED = """alter table lockstep.reject disable trigger memory_stays; alter table lockstep.reject disable trigger read_again;
    with gone as (delete from lockstep.reject returning *) insert into public.house
    select 'x', 1, 1, stream_id, "offset", 0, batch_id, 1, 1 from gone"""
A_ROW = "_stream = 1 and _offset = 3"
FORGED = {
    "a row is changed": (f"update public.house set n = n + 1 where {A_ROW}", "offset 3: n is"),
    "a checksum is changed": (f"update public.house set crc = crc + 1 where {A_ROW}", "offset 3: crc is"),
    "two columns are mixed up": (f"update public.house set n = uid, uid = n + 1 where {A_ROW}", "offset 3: uid is"),
    "a row is missing": (f"delete from public.house where {A_ROW}", "lost offset 3"),
    "a row is doubled": (
        f"insert into public.house select id, n, factor, 1, 3, 1, _batch, uid, crc from public.house where {A_ROW}",
        "doubled: (1, 3)",
    ),
    "a record stands at a second offset": (
        "insert into public.house select id, n, factor, 2, 77, 0, _batch, uid, crc from public.house where uid = 4",
        "doubled: 2 rows have uid 4",
    ),
    "two records stand at each other's offsets": (SWAPPED, "offset 2: uid is 4, its record makes it 3"),
    "a row is by other code than its batch": (
        f"update public.house set n = n * 5, factor = 5 where {A_ROW}",
        "has rows of stream 1 by 5",
    ),
    "a reject holds another record": ("update lockstep.reject set value = 'x'", "reject of stream 1 offset 6: holds"),
    "a good record is rejected": (REJECTED, "reject of stream 1 offset 3"),
    "garbage has a row": (
        ACCEPTED,
        "offset 6: it has a row, and its record must not become one",
    ),
    "the table is empty": ("truncate public.house", "lost offset 0 (of 6 lost)"),
}


def committed(scene: Scene) -> Scene:
    """Commits six records and a reject of partition 0, and six records of partition 1, as they must be."""
    scene.log.produce(0, 6)
    scene.log.produce(0, 1, kind="garbage")
    scene.log.produce(1, 6)
    scene.done()
    assert scene.violations(least=13) == []
    return scene


def at_coordinates(scene: Scene) -> list[str]:
    """Compares coordinates alone, as before: the offsets that are there, whatever their values."""
    scene.remember()
    return look(scene.dsn, scene.visible, "house", "public.house", becomes=None).violations


@pytest.mark.parametrize(("statement", "said"), FORGED.values(), ids=FORGED)
def test_a_forged_table_is_seen(scene, statement, said):
    committed(scene).ask(f"reset role; {statement}")
    assert any(said in violation for violation in scene.violations()), scene.violations()


@pytest.mark.parametrize("kind", ["by_batch", "keyed", "ordered", "accumulated"])
@pytest.mark.parametrize("column", ["id", "uid", "crc", "n"])
def test_a_changed_column_of_any_target_is_seen(database, tmp_path, kind, column):
    scene = Scene(database, tmp_path, kind=kind)
    committed(scene) if kind in {"by_batch", "keyed"} else (scene.log.produce(0, 13), scene.done())
    column = {"uid": "uids", "crc": "crcs", "n": "total"}.get(column, column) if kind == "accumulated" else column
    assert scene.violations(least=3) == []

    changed = "'forged'" if column == "id" else f"coalesce({column}, 0) + 1"
    one = "select _offset from public.house where _stream = 1 order by 1 desc limit 1"
    scene.ask(f"reset role; update public.house set {column} = {changed} where _stream = 1 and _offset = ({one})")

    assert scene.violations() != []
    scene.end()


def cut_and_begun_anew(scene: Scene) -> None:
    """Commits 100 records, cuts the log to 60, begins it anew at its start, and commits 50 others."""
    scene.log.produce(0, 100)
    scene.run()
    scene.remember()
    scene.log.truncate(0, 60)
    assert scene.once()["decision"] == "Blocked"
    scene.retire(start="log-start")
    scene.log.produce(0, 50)
    scene.run()


def as_a_replay_from_todays_log(scene: Scene) -> None:
    """Replaces the rows of the old incarnation by the records at the same offsets of today's log."""
    rows = [(o, r.value) for o, r in scene.log.parts[0].visible(0, 100).items()]
    for offset, value in rows:
        scene.ask(
            "set role lockstep_committer; update public.house h set (id, n, uid, crc) = "
            "(select id, n * h.factor, uid, crc from jsonb_to_record(%s::jsonb) "
            "as r (id text, n bigint, uid bigint, crc bigint)) where _stream = 1 and _offset = %s",
            value.decode(),
            offset,
        )


def test_rows_of_a_lost_incarnation_are_held_against_the_records_it_held(scene):
    cut_and_begun_anew(scene)
    as_a_replay_from_todays_log(scene)

    scene.remember()
    old = at_coordinates(scene)
    new = look(scene.dsn, scene.visible, "house", "public.house", becomes=becomes("appended"), unique="uid", least=110)

    assert old == []
    assert new.figures["lost"] == 40
    assert new.figures["wrong"] == 40
    assert new.figures["doubled"] == 100
    assert "stream 1 offset 60: lost uid 61, it is in no row" in new.violations


def test_a_look_at_too_few_rows_proves_nothing(scene):
    assert scene.violations() == []
    assert scene.violations(least=1) == ["0 rows and rejects were compared, this look needs at least 1"]
    assert committed(scene).violations(least=14) == ["13 rows and rejects were compared, this look needs at least 14"]


@pytest.mark.parametrize("guarantee", [PerPartition(), Idempotent(), AtLeastOnce(), AtMostOnce()])
def test_a_changed_row_of_any_guarantee_is_seen(database, tmp_path, guarantee):
    scene = Scene(database, tmp_path, guarantee=guarantee)
    scene.log.produce(0, 6)
    scene.run()
    assert scene.violations(least=6) == []

    scene.ask(f"reset role; update public.house set n = n + 1 where {A_ROW}")

    assert scene.violations()[0].startswith("stream 1 offset 3: n is 5, its record makes it 4")
    scene.end()


def test_what_a_guarantee_does_not_promise_is_no_violation_and_a_wrong_value_always_is(scene):
    committed(scene).ask(f"reset role; {FORGED['a row is doubled'][0]}")
    scene.ask("reset role; delete from public.house where _stream = 2 and _offset = 1")

    def said(*may: str) -> list[str]:
        return look(scene.dsn, scene.visible, "house", "public.house", becomes=becomes("appended"), may=may).violations

    assert any("lost" in violation for violation in said("double"))
    assert any("doubled" in violation for violation in said("lose"))
    assert said("double", "lose") == []
    scene.ask(f"reset role; update public.house set n = 0 where {A_ROW}")
    assert any("n is 0" in violation for violation in said("double", "lose"))


def test_a_key_in_two_partitions_of_one_epoch_is_named_where_no_order_tells_them_apart(keyed):
    committed(keyed)
    key = Record(b"0-1", sealed({"uid": 99, "id": "0-1", "n": 99}), keyed.log.parts[0].records[0].at)
    keyed.log.parts[1].records[2] = key
    assert any("two partitions of one epoch" in violation for violation in keyed.violations())


def test_what_was_read_is_still_known_after_the_topic_is_created_again(database, tmp_path):
    recreates_at_once = 2388772264

    figures = storm(partial(World, database, tmp_path, kind="accumulated"), recreates_at_once, commits=2)

    assert figures.violations == []
    assert figures.committed >= 2
