"""Tests rows that the source's log orders: whatever a connector sends again, and in whatever batches and lanes."""

from __future__ import annotations

import json
import random
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from lockstep import Debezium, PerPartition
from lockstep.adapters.postgres import connect
from lockstep.core.errors import BadData
from lockstep.core.planning.decisions import Blocked
from lockstep.steps.upkeep.coverage import upkeep
from simulation.mirror import Mirror
from simulation.test_unavailable import of, partition, replay_some, replayed
from support.fakes.captured import PLACEHOLDER, CapturedRecord, CapturedTable

HOUR = 3_600_000


LONG = [pytest.param(way, marks=pytest.mark.long) for way in ("per partition", "a task a record")]


@pytest.fixture(params=["per batch", *LONG])
def sourced(request, database, tmp_path):
    guarantee = PerPartition() if request.param == "per partition" else None
    scene = Mirror(database, tmp_path, guarantee, kind="sourced", apart=request.param == "a task a record")
    yield scene
    scene.end()


@pytest.fixture
def alone(database, tmp_path):
    scene = Mirror(database, tmp_path, kind="sourced")
    yield scene
    scene.end()


def changed(op: str, key: int, name: str, lsn: int, doc: str | None = None, **source: Any) -> CapturedRecord:
    """Returns a change of the row, or its deletion, at a place of the source's log."""
    row = {"id": key, "name": name, "doc": doc}
    value = {"op": op, "source": {"lsn": lsn} | source, "before": row, "after": None if op == "d" else row}
    return CapturedRecord(json.dumps({"id": key}).encode(), json.dumps(value).encode(), lsn)


def tombstone(key: int) -> CapturedRecord:
    return CapturedRecord(json.dumps({"id": key}).encode(), None)


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 2))])
def test_the_table_is_the_source_wherever_a_batch_ends(sourced, seed):
    source = CapturedTable(seed, schemas=seed % 2 == 0, flat=seed % 3 == 1, tombstones=seed != 2)
    for _ in range(24):
        source.step()
    pick, read = random.Random(seed), 0  # noqa: S311 - a seed that can be told is the point
    while read < len(source.sent):
        until = read + pick.randint(1, 9)
        sourced.put(*source.sent[read:until])
        read = min(until, len(source.sent))
        assert sourced.rows == source.state(source.sent[:read]), f"behind record {read}"
        if pick.random() < 0.3:
            replay_some(sourced, pick, most=20)
            assert sourced.rows == source.state(source.sent[:read]), f"a replay behind record {read}"
    assert sourced.rows == source.rows


def test_a_connector_that_sends_old_changes_again_takes_nothing_back(sourced):
    old = [changed("c", 1, "a", 10), changed("c", 2, "x", 11), changed("u", 1, "b", 12)]
    sourced.put(*old, changed("u", 1, "c", 20), changed("d", 2, "x", 21), tombstone(2))
    for record in old:
        sourced.put(record)
        assert sourced.rows == {1: of("c", None)}
    sourced.put(*old)
    assert sourced.rows == {1: of("c", None)}


def test_a_deletion_that_is_replayed_under_a_newer_row_is_remembered(sourced):
    sourced.put(*(changed("c", key, "a", key) for key in range(1, 8)))
    part = partition(sourced, 1)
    other = next(key for key in range(2, 8) if partition(sourced, key) == part)
    begin = sourced.log.parts[part].end
    sourced.put(changed("d", 1, "a", 11), changed("d", other, "a", 12))  # the last of a stream is remembered anyway
    sourced.put(changed("c", 1, "b", 13))

    replayed(sourced, {part: begin}, {part: begin + 2})

    assert sourced.rows[1] == of("b", None)
    remembered = f'select "order" is null from lockstep.tombstone where "offset" = {begin}'
    assert sourced.ask(remembered) == [(False,)]


def test_a_deletion_that_is_sent_again_takes_no_newer_row_wherever_its_tombstone_is_cut_off(sourced):
    sourced.put(changed("c", 1, "a", 10), changed("d", 1, "a", 11), tombstone(1), changed("c", 1, "b", 12))
    sourced.put(changed("d", 1, "a", 11))
    assert sourced.rows == {1: of("b", None)}
    sourced.put(tombstone(1))
    assert sourced.rows == {1: of("b", None)}
    sourced.put(changed("d", 1, "a", 11), tombstone(1))
    assert sourced.rows == {1: of("b", None)}
    ends = {partition(sourced, 1): 7}
    replayed(sourced, dict.fromkeys(ends, 0), ends)
    assert sourced.rows == {1: of("b", None)}


def test_a_tombstone_whose_deletion_was_compacted_away_deletes_the_row(sourced):
    sourced.put(changed("c", 1, "a", 10))
    sourced.write([changed("d", 1, "a", 11), tombstone(1)])
    del sourced.log.parts[partition(sourced, 1)].records[1]
    sourced.done()
    assert sourced.rows == {}
    sourced.put(changed("c", 1, "older", 9))
    assert sourced.rows == {}
    sourced.put(changed("c", 1, "b", 12))
    sourced.write([changed("u", 1, "c", 13), changed("d", 1, "c", 14), tombstone(1)])
    del sourced.log.parts[partition(sourced, 1)].records[6]
    sourced.done()
    assert sourced.rows == {}


@pytest.mark.parametrize("portions", [(2,), (1, 1)], ids=str)
def test_a_tombstone_behind_a_rejected_deletion_deletes_the_row_wherever_a_batch_ends(sourced, portions):
    sourced.put(changed("c", 1, "a", 10))
    unplaced = CapturedRecord(b'{"id": 1}', b'{"op": "d", "before": {"id": 1}, "source": {"ts_ms": 5}}')
    records = iter([unplaced, tombstone(1)])
    for portion in portions:
        sourced.put(*(next(records) for _ in range(portion)))
    assert sourced.ask('select "offset" from lockstep.reject') == [(1,)]
    assert sourced.rows == {}


@pytest.mark.parametrize("portions", [(3,), (1, 2), (2, 1), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("sends_deletions", [True, False])
def test_a_tombstone_behind_another_keys_deletion_deletes_the_row_wherever_a_batch_ends(
    sourced, portions, sends_deletions
):
    sourced.put(changed("c", 1, "a", 10), changed("c", 4, "x", 11), changed("c", 7, "y", 12))
    assert partition(sourced, 1) == partition(sourced, 4) == partition(sourced, 7)
    first = changed("d", 4, "x", 13) if sends_deletions else tombstone(7)
    records = iter([first, tombstone(4), tombstone(1)])
    for portion in portions:
        sourced.put(*(next(records) for _ in range(portion)))
    assert sourced.rows == ({7: of("y", None)} if sends_deletions else {})


@pytest.mark.parametrize("portions", [(2,), (1, 1)], ids=str)
def test_a_tombstone_behind_an_old_change_of_another_key_deletes_the_row_wherever_a_batch_ends(sourced, portions):
    sourced.put(changed("c", 1, "a", 10), changed("c", 4, "x", 11), changed("u", 4, "y", 12))
    records = iter([changed("c", 4, "x", 11), tombstone(1)])
    for portion in portions:
        sourced.put(*(next(records) for _ in range(portion)))
    assert sourced.rows == {4: of("y", None)}
    place = partition(sourced, 1)
    sourced.put(changed("u", 4, "z", 13))
    replayed(sourced, {place: 4}, {place: 5})
    assert sourced.rows == {4: of("z", None)}


def test_a_tombstone_whose_deletion_was_staged_alone_and_then_compacted_away_deletes_the_row(alone):
    alone.put(changed("c", 1, "a", 10))
    alone.write([changed("d", 1, "a", 11)])
    alone.validated(alone.plan())
    alone.abandon()
    del alone.log.parts[partition(alone, 1)].records[1]
    alone.put(tombstone(1))
    assert alone.rows == {}


def test_a_snapshot_loses_against_a_change_of_the_same_or_a_later_place_and_wins_against_an_earlier_one(sourced):
    sourced.put(changed("u", 1, "streamed", 20), changed("u", 2, "streamed", 21), changed("u", 3, "streamed", 19))
    for key in (1, 2, 3):
        sourced.put(changed("r", key, "snapshot", 20, snapshot="incremental"))
    assert sourced.rows == {1: of("streamed", None), 2: of("streamed", None), 3: of("snapshot", None)}
    sourced.put(changed("r", 4, "snapshot", 30), changed("c", 4, "streamed", 30))
    assert sourced.rows[4] == of("streamed", None)


def test_a_change_of_a_long_transaction_counts_from_its_commit(sourced):
    sourced.put(changed("r", 1, "snapshot", 100, sequence='["90", "100"]', snapshot="incremental"))
    sourced.put(changed("u", 1, "committed behind the snapshot", 95, sequence='["105", "95"]'))
    assert sourced.rows == {1: of("committed behind the snapshot", None)}


def test_an_old_change_gives_no_value_to_a_newer_one(sourced):
    sourced.put(changed("c", 1, "a", 10, "first"), changed("u", 1, "b", 11, "second"))
    sourced.put(changed("u", 1, "c", 12, PLACEHOLDER), changed("c", 1, "a", 10, "first"))
    assert sourced.rows == {1: of("c", "second")}
    place = partition(sourced, 1)
    replayed(sourced, {place: 2}, {place: 4})
    assert sourced.rows == {1: of("c", "second")}


def test_the_newest_older_change_of_a_batch_gives_the_value_and_a_deletion_none(sourced):
    sourced.put(
        changed("c", 1, "a", 10, "first"), changed("u", 1, "b", 11, "second"), changed("u", 1, "c", 12, PLACEHOLDER)
    )
    assert sourced.rows == {1: of("c", "second")}
    sourced.put(changed("d", 1, "c", 13), tombstone(1), changed("u", 1, "d", 14, PLACEHOLDER))
    assert sourced.rows == {1: of("d", None)}


@pytest.mark.parametrize("dead", [True, False])
def test_a_log_that_begins_again_is_refused_and_changes_nothing(alone, dead):
    alone.put(changed("c", 1, "a", 500, ts_ms=HOUR))
    if dead:
        alone.put(changed("d", 1, "a", 501, ts_ms=HOUR))
    before = alone.rows
    alone.put(changed("c", 1, "a", 499, ts_ms=HOUR))  # sent again
    with pytest.raises(BadData, match=r"house\.v1-\d offset \d lies before what is there .* 4 hours younger") as no:
        alone.put(changed("c", 1, "b", 7, ts_ms=5 * HOUR + 1))
    assert no.value.next_command == "lockstep clone house --to ANOTHER_NAME"
    assert alone.rows == before


def test_a_deletion_is_not_forgotten_because_the_source_may_send_older_changes_at_any_time(alone):
    alone.put(changed("c", 1, "a", 10), changed("d", 1, "a", 11), tombstone(1), changed("c", 2, "x", 12))
    place = partition(alone, 1)
    alone.log.trim(place, 3)
    with closing(connect(alone.dsn)) as conn:
        assert upkeep(conn, alone.at.broker.view).forgotten == 0
    alone.put(changed("c", 1, "a", 10))
    assert alone.rows == {2: of("x", None)}


def test_the_order_of_a_pipeline_with_batches_stays(alone):
    alone.put(changed("c", 1, "a", 10))
    form = Debezium("id bigint, name string, doc string, photo binary", units={"photo": "base64"})
    target = replace(alone.folder.pipeline.target, order_by=None)
    alone.folder = replace(alone.folder, pipeline=replace(alone.folder.pipeline, format=form, target=target))
    alone.write([changed("u", 1, "b", 11)])
    decision = alone.plan().decision
    assert isinstance(decision, Blocked)
    assert "its order of changes was source and is now log; a pipeline keeps its order of changes" in decision.reason
