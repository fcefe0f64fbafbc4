"""Tests truncations of the source that are applied: what lies before one is gone, whenever and however often it comes."""

from __future__ import annotations

import json
import random
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg2
import pytest

from lockstep import Debezium, PerPartition
from lockstep.adapters.postgres import OWNER, READER, connect, transaction
from lockstep.core.errors import BadData, Refusal
from lockstep.core.pipeline.definition import Feed
from lockstep.core.planning.bounds import AtOffsets
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.ledger.views.tracing import record_of_row
from lockstep.steps.changes.skip import skip
from lockstep.steps.proof.verify import verify_of_ledger
from lockstep.steps.requests.preview import Difference, preview
from lockstep.steps.requests.requests import NewRequest, open_request
from simulation.mirror import Mirror
from simulation.scene import COMMITTED
from simulation.test_order_of_the_source import HOUR, changed, tombstone
from simulation.test_unavailable import of, replayed
from simulation.world import ME
from support.fakes.captured import PLACEHOLDER, CapturedRecord, CapturedTable
from support.oracles.folded import not_folded

SHORT = 23  # the seed of a history that is short and has many truncations


class Followed(Mirror):
    """A mirror whose changes a feed tells."""

    feed = Feed()


class Previewing(Mirror):
    """A mirror that tells what a fill would change."""

    def preview_fill(self, begin: dict[int, int], end: dict[int, int]) -> Difference:
        wanted = NewRequest(Lane.FILL, AtOffsets(begin), AtOffsets(end), preview=True)
        asked = open_request(self.at.conn, self.at.broker, self.folder, wanted, ME, datetime.now(UTC))
        assert asked is not None
        found, _ = preview(self.at, self._engine(), self.folder, asked.request_id, Caller("me"))
        return found


LONG = [pytest.param(way, marks=pytest.mark.long) for way in ("per partition", "a task a record")]


@pytest.fixture(params=["per batch", *LONG])
def sourced(request, database, tmp_path):
    guarantee = PerPartition() if request.param == "per partition" else None
    scene = Followed(database, tmp_path, guarantee, kind="sourced", apart=request.param == "a task a record")
    yield scene
    scene.end()


@pytest.fixture
def alone(database, tmp_path):
    scene = Previewing(database, tmp_path, kind="sourced")
    yield scene
    scene.end()


def truncated(lsn: int, **source: Any) -> CapturedRecord:
    value = {"op": "t", "source": {"lsn": lsn} | source, "before": None, "after": None}
    return CapturedRecord(None, json.dumps(value).encode(), lsn)


def replayed_whole(scene: Mirror) -> None:
    for place, part in enumerate(scene.log.parts):
        if part.end:
            replayed(scene, {place: 0}, {place: part.end})


@pytest.mark.parametrize("seed", [SHORT, *(pytest.param(each, marks=pytest.mark.long) for each in (2, 3, 4, 5, 7, 10))])
def test_the_table_is_the_source_wherever_a_batch_ends_and_whichever_partition_comes_first(sourced, seed):
    source = CapturedTable(seed, schemas=seed % 2 == 0, flat=seed % 3 == 1, tombstones=seed % 4 != 2, truncates=True)
    for _ in range(12 if seed == SHORT else 24):
        source.step()
    assert sum(record.key is None for record in source.sent) > 1
    pick = random.Random(seed)  # noqa: S311 - a seed that can be told is the point
    waiting: dict[int, list[CapturedRecord]] = {}
    for record in source.sent:
        waiting.setdefault(sum(record.key or b"") % len(sourced.log.parts), []).append(record)
    read: list[CapturedRecord] = []
    while waiting:
        part = pick.choice(sorted(waiting))  # a partition may be far behind the others, and behind a truncation
        many = pick.randint(1, 9)
        some, waiting[part] = waiting[part][:many], waiting[part][many:]
        if not waiting[part]:
            del waiting[part]
        sourced.put(*some)
        read += some
        assert sourced.rows == source.state(read), f"behind {len(read)} records"
        if pick.random() < 0.3:
            end = sourced.log.parts[part].end
            begin = pick.randrange(end)
            replayed(sourced, {part: begin}, {part: pick.randint(begin + 1, min(end, begin + 20))})
            assert sourced.rows == source.state(read), f"a replay behind {len(read)} records"
    assert sourced.rows == source.rows
    assert not_folded(sourced.ask, "public.house") == []


def test_what_lies_before_a_truncation_goes_and_comes_back_by_no_repeat_batch_or_replay(sourced):
    old = [changed("c", 1, "a", 10), changed("c", 2, "x", 11), changed("d", 1, "a", 12), tombstone(1)]
    sourced.put(*old, changed("c", 3, "stays", 31))
    sourced.put(truncated(30))
    assert sourced.rows == {3: of("stays", None)}
    before = sourced.ask("select * from lockstep.source_truncation")
    for again in ([*old], [truncated(20)], [changed("u", 2, "y", 29)], [truncated(30)], [changed("r", 2, "y", 30)]):
        sourced.put(*again)
        assert sourced.rows == {3: of("stays", None)}
    sourced.put(changed("c", 1, "new", 40), changed("u", 3, "newer", 41))
    rows = {1: of("new", None), 3: of("newer", None)}
    assert sourced.rows == rows
    replayed_whole(sourced)
    assert sourced.rows == rows
    kept = sourced.ask('select * from lockstep.source_truncation order by "offset"')
    assert kept[0] == before[0]
    assert len(kept) == 3
    assert not_folded(sourced.ask, "public.house") == []


def test_rows_before_and_behind_a_truncation_in_one_batch(sourced):
    sourced.put(changed("c", 1, "a", 10, "first"), truncated(20), changed("c", 2, "b", 21), changed("u", 1, "c", 19))
    assert sourced.rows == {2: of("b", None)}
    sourced.put(truncated(25))
    assert sourced.rows == {}


def test_no_value_comes_from_before_a_truncation(alone):
    alone.put(changed("c", 1, "a", 10, "old"))
    alone.put(truncated(20), changed("u", 1, "b", 21, PLACEHOLDER))
    assert alone.rows == {1: of("b", None)}
    alone.put(changed("c", 2, "a", 22, "old"), truncated(23), changed("u", 2, "b", 24, PLACEHOLDER))
    assert alone.rows == {2: of("b", None)}
    assert alone.unavailable == 1


def test_a_truncation_that_was_skipped_is_filled_at_its_place(alone):
    alone.put(changed("c", 1, "a", 10))
    applying = alone.folder
    form = Debezium("id bigint, name string, doc string, photo binary", units={"photo": "base64"}, order="source")
    alone.folder = replace(applying, pipeline=replace(applying.pipeline, format=form))
    alone.write([truncated(20), changed("c", 2, "b", 21)])
    with pytest.raises(BadData, match="the source's table was truncated, and rows stay here"):
        alone.done()
    skip(alone.at.conn, alone.at.broker, alone.folder.pipeline, AtOffsets({0: 2}), ME, datetime.now(UTC))
    alone.folder = applying
    alone.done()
    both = {1: of("a", None), 2: of("b", None)}
    assert alone.rows == both
    with pytest.raises(Refusal, match=r"is not there, and no tombstone says that it was"):
        blamed(alone, 9)
    found = alone.preview_fill({0: 1}, {0: 2})
    assert found.counts == {"added": 0, "changed": 0, "removed": 1, "unchanged": 0}
    assert [sample["before"]["name"] for sample in found.samples] == ["a"]
    assert alone.rows == both
    request = alone.asked("fill", {0: 1}, {0: 2})
    assert alone.on(alone.plan_request(request)) == COMMITTED
    assert alone.rows == {2: of("b", None)}
    with pytest.raises(Refusal, match=r"is not there; its source's table was truncated at house.v1-0 offset 1"):
        blamed(alone, 1)


def test_a_truncation_without_a_place_refuses_the_batch(alone):
    alone.write([CapturedRecord(None, b'{"op": "t", "source": {"ts_ms": 1}}')])
    with pytest.raises(BadData, match=r"truncated, and rows stay here: .* source: names no place in its log"):
        alone.done()


@pytest.mark.parametrize(
    ("there", "record"),
    [
        (truncated(500, ts_ms=HOUR), changed("c", 2, "b", 7, ts_ms=5 * HOUR + 1)),
        (changed("c", 2, "a", 500, ts_ms=HOUR), truncated(7, ts_ms=5 * HOUR + 1)),
    ],
    ids=["a change", "a truncation"],
)
def test_a_log_that_begins_again_is_refused_behind_a_truncation_and_by_one(alone, there, record):
    alone.put(there)
    alone.put(truncated(499, ts_ms=HOUR))  # sent again
    before = alone.rows
    with pytest.raises(BadData, match=r"house\.v1-\d offset \d lies before what is there .* 4 hours younger"):
        alone.put(record)
    assert alone.rows == before


def test_the_database_keeps_the_floor(alone):
    alone.put(changed("c", 1, "a", 30), truncated(20))
    with closing(connect(alone.dsn)) as conn:
        for statement in (
            "delete from lockstep.source_truncation",
            "update lockstep.source_truncation set target = 'a.b'",
        ):
            with (
                pytest.raises(psycopg2.IntegrityError, match=r"truncation_stays: rows from before .* public\.house"),
                transaction(conn, OWNER) as cur,
            ):
                cur.execute(statement)


def test_the_database_refuses_a_truncation_that_leaves_older_rows(alone):
    alone.put(changed("c", 1, "a", 30), truncated(20))
    keep = """insert into lockstep.source_truncation (target, stream_id, "offset", "order")
              select target, stream_id, 99, %s from lockstep.source_truncation"""
    with closing(connect(alone.dsn)) as conn:
        with (
            pytest.raises(psycopg2.IntegrityError, match=r"truncated_is_empty: public\.house has rows"),
            transaction(conn, OWNER) as cur,
        ):
            cur.execute(keep, [b"P\xff"])
        with transaction(conn, OWNER) as cur:
            cur.execute(keep, [b"P"])
    assert alone.rows == {1: of("a", None)}


def test_verify_names_a_row_from_before_a_truncation_that_came_back_by_hand(alone):
    alone.put(changed("c", 1, "a", 30), truncated(20))
    with closing(connect(alone.dsn)) as conn:
        assert [check for check in verify_of_ledger(conn, alone.pipeline) if not check.ok] == []
        alone.ask("update public.house set _source_order = substr(_source_order, 1, 8) || '\\x00' returning 1")
        wrong = [check for check in verify_of_ledger(conn, alone.pipeline) if not check.ok]
    assert {check.name: check.detail for check in wrong} == {
        "no row is from before a truncation of its source": (
            "house.v1-0: the row of offset 0 is from before the truncation at house.v1-0 offset 1"
        )
    }


def blamed(scene: Mirror, key: int) -> Any:
    with transaction(scene.at.conn, READER) as cur:
        return record_of_row(cur, scene.pipeline, [str(key)])


@pytest.mark.parametrize("portions", [(2,), (1, 1)], ids=str)
def test_an_old_deletion_from_before_a_truncation_takes_no_newer_row_wherever_its_tombstone_is_cut_off(
    sourced, portions
):
    sourced.put(truncated(30))
    sourced.put(changed("c", 1, "new", 31))
    records = iter([changed("d", 1, "a", 12), tombstone(1)])
    for portion in portions:
        sourced.put(*(next(records) for _ in range(portion)))
    assert sourced.rows == {1: of("new", None)}
