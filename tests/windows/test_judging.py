"""Tests that lateness is decided once: by the watermark of a plan, and for every replay as it was at first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lockstep.core.errors import BadData
from lockstep.faults import ARMED_BY, InjectedFault
from lockstep.steps.windows import judge_events
from lockstep.steps.windows.look import windows_document
from support.oracles.folded import not_folded

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SETS = "select kind, changes from lockstep.change_set where target = 'public.house' order by seq"
JUDGED = """select lower(offsets), upper(offsets), case when watermark > '-infinity' then
    extract(epoch from watermark - '2026-05-01T12:00Z') end from lockstep.judged order by 1, 2, 3"""


def whole(scene) -> None:
    assert scene.violations() == []
    assert not_folded(scene.ask, "public.house") == []


def test_e5_a_live_commit_writes_no_row_and_emit_shows_what_the_watermark_has_passed(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 10, 100)
    scene.done()
    assert (scene.shown(), scene.watermark()) == ({}, 90)
    assert scene.emit() == {"public.house": 2}
    assert scene.shown() == {(-30, "a"): (6, 1), (0, "a"): (6, 1)}
    assert scene.emit() == {"public.house": 0}
    assert scene.ask(SETS) == [("batch", 0), ("emission", 2)]
    whole(scene)


def test_e2_the_watermark_is_the_least_time_of_the_partitions_and_never_falls(timed):
    scene = timed()
    scene.put(0, 500)
    scene.put(1, 300)
    scene.done()
    assert scene.watermark() == "nothing"
    scene.put(2, 100)
    scene.done()
    assert scene.watermark() == 90
    scene.put(2, 50)
    scene.done()
    assert scene.watermark() == 90
    scene.put(2, 900)
    scene.done()
    assert scene.watermark() == 290
    whole(scene)


def test_e1_a_record_from_the_future_makes_no_other_record_late(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 100, "2060-01-01T00:00:00Z")
    scene.done()
    assert scene.watermark() == 90
    scene.put(0, 95)
    scene.done()
    assert scene.late() == []
    whole(scene)


def test_e1_a_range_whose_records_give_no_row_counts_by_their_own_time(timed):
    scene = timed()
    for partition in range(2):
        scene.put(partition, 500)
    scene.log.produce(2, 3, kind="garbage")
    scene.done()
    ((seen,),) = scene.ask("""select extract(epoch from t.seen - r.max_timestamp) from lockstep.stream_time t
        join lockstep.result r using (stream_id) join lockstep.stream s using (stream_id) where s.partition = 2""")
    assert seen == 0


def test_e1_a_late_record_moves_the_time_of_a_partition_that_was_silent(timed):
    scene = timed(idle="5 seconds")
    for partition in range(3):
        scene.put(partition, 100)
    scene.done()
    scene.ask("update lockstep.stream_time set idle_at = '2026-05-01T12:08:25Z'")
    scene.ask("update lockstep.event_time set watermark = '2026-05-01T12:08:10Z'")
    scene.put(0, 300)
    scene.done()
    assert {offset for _, offset, _ in scene.late()} == {1}
    assert scene.ask("""select s.partition, extract(epoch from t.seen - '2026-05-01T12:00Z') from lockstep.stream_time t
        join lockstep.stream s using (stream_id) order by 1""") == [(0, 300), (1, 100), (2, 100)]


def test_e3_a_live_batch_is_judged_by_the_watermark_of_its_plan(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 200)
    scene.done()
    assert scene.watermark() == 190
    scene.put(0, 400, 80, 120, 250)
    planned = scene.plan()
    scene.ask("update lockstep.stream_time set seen = '2026-05-01T12:08:20Z'")
    scene.ask("update lockstep.event_time set watermark = '2026-05-01T12:08:10Z'")  # risen since the plan
    scene.commit(scene.validated(planned))
    assert scene.late() == [(0, 2, 30), (0, 2, 60), (0, 3, 90)]
    assert {(begin, float(watermark)) for begin, _, watermark in scene.ask(JUDGED) if begin == 1} == {(1, 190.0)}
    whole(scene)


def test_e3_a_judgement_that_dies_before_its_commit_leaves_nothing_and_the_same_one_follows(
    timed, tmp_path, monkeypatch
):
    scene, armed = timed(), tmp_path / "armed"
    scene.put(0, 0, 100)
    planned = scene.plan()
    attempt = scene.validated(planned)
    armed.touch()
    monkeypatch.setenv(ARMED_BY, f"windows.judged=raise@{armed}")
    with pytest.raises(InjectedFault):
        scene.commit(attempt)
    assert scene.ask(JUDGED) == []
    scene.commit(scene.validated(scene.plan()))
    assert scene.ask(JUDGED) == [(0, 2, None)]
    whole(scene)


def test_e3_a_window_that_closes_at_the_watermark_is_late_and_one_that_is_open_is_not(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 110)
    scene.done()
    assert scene.watermark() == 100
    scene.put(0, 0)  # its windows end at 30 and 60: closed at 70 and 100
    scene.put(1, 30)  # at 60 and 90: closed at 100 and 130
    scene.done()
    assert scene.late() == [(0, 1, -30), (0, 1, 0), (1, 1, 0)]
    whole(scene)


def test_a_late_record_is_kept_with_its_row_and_what_judged_it(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    scene.put(0, 0, key="z")
    scene.done()
    rows = scene.ask(
        """select "offset", key ->> 1, event_time, watermark, row ->> 'uid' from lockstep.late order by window_start"""
    )
    assert rows == [(1, "z", NOON, NOON + timedelta(seconds=490), "4")] * 2
    assert set(scene.ask("select row from lockstep.late limit 1")[0][0]) == {"id", "n", "at", "factor", "uid", "crc"}


def test_e4_a_filled_record_is_never_late(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 500)
    scene.done()
    scene.emit()
    scene.put(0, 0, 600)
    scene.skip({0: 4})
    scene.put(0, 700)
    scene.done()
    assert scene.late() == []
    scene.redo("fill", None, None)
    assert scene.late() == []
    assert scene.shown()[0, "a"] == (4, 2)
    whole(scene)


def test_e4_a_replay_judges_each_record_as_it_was_judged_at_first(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 20)
    scene.done()  # nothing was late at the beginning
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    scene.put(0, 5)  # late
    scene.done()
    scene.emit()
    before, sets = scene.late(), len(scene.ask(SETS))
    assert len(before) == 2
    shown = scene.shown()
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    assert (scene.late(), scene.shown()) == (before, shown)
    assert {changes for _, changes in scene.ask(SETS)[sets:]} == {0}
    whole(scene)


def test_e5_a_record_within_the_lateness_is_the_next_revision_of_a_shown_window(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 80)
    scene.done()
    scene.emit()
    assert scene.shown() == {(-30, "a"): (3, 1), (0, "a"): (3, 1)}
    scene.put(0, 40)  # its windows end at 60 and 90, the watermark is 70
    scene.done()
    assert scene.late() == []
    assert scene.shown() == {(-30, "a"): (3, 1), (0, "a"): (4, 2)}
    whole(scene)


def test_e5_a_replay_under_other_code_raises_the_revisions_of_what_it_changes(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 80)
    scene.done()
    scene.emit()
    scene.factor = 3
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    assert {revision for _, revision in scene.shown().values()} == {2}
    whole(scene)


def test_e5_a_window_that_nothing_is_left_of_loses_its_row_and_keeps_its_revisions(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 80)
    scene.put(0, 0, key="b")
    scene.done()
    scene.emit()
    assert scene.shown()[0, "b"] == (1, 1)
    record = scene.log.parts[0].records[1]
    scene.log.parts[0].records[1] = None  # compacted away
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    assert (0, "b") not in scene.shown()
    scene.log.parts[0].records[1] = record
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    assert scene.shown()[0, "b"] == (1, 3)
    whole(scene)


def test_a_window_that_nothing_is_left_of_before_it_is_shown_is_not_due(timed):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 10)
    scene.put(0, -300, key="b")
    scene.done()
    scene.log.parts[0].records[1] = None  # compacted away
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    scene.emit()
    document = windows_document(scene.at.conn, scene.pipeline, scene.pipeline.first, 10)
    assert document["counts"] == {"open": 2, "due": 0, "emitted": 2, "updated": 0, "late_rows": 0}
    seconds = [(window["start"] - NOON).total_seconds() for window in document["windows"]]
    assert seconds == [480, 450, 0, -30]
    whole(scene)


def test_e6_an_event_at_no_time_of_a_window_is_a_reject_and_the_others_go_on(timed):
    scene = timed()
    scene.put(0, 0, "9999-12-31T23:59:59Z", 10)
    scene.done()
    assert scene.ask('select "offset", reason from lockstep.reject') == [
        (1, "column at: the event is at 9999-12-31 23:59:59+00, and windows hold the years 2 to 9989")
    ]
    assert scene.ask("select sum(records) from lockstep.contribution") == [(4,)]


def test_e6_a_batch_that_is_late_as_a_whole_is_refused_and_nothing_of_it_is_written(timed, monkeypatch):
    monkeypatch.setattr(judge_events, "FEW_LATE", 10)
    scene = timed(max_late_share=0.5)
    for partition in range(3):
        scene.put(partition, 5_000)
    scene.done()
    scene.put(0, *range(30))
    with pytest.raises(BadData, match="60 of 60 rows would be late, more than max_late_share 50%: are lateness"):
        scene.done()
    assert (scene.late(), scene.positions()[0]) == ([], 1)


def test_e6_a_few_late_records_refuse_no_batch(timed):
    scene = timed(max_late_share=0)
    for partition in range(3):
        scene.put(partition, 5_000)
    scene.done()
    scene.put(0, 1)
    scene.done()
    assert len(scene.late()) == 2


@pytest.mark.parametrize("admitted", [True, False])
def test_e13_a_preview_tells_what_becomes_late_and_changes_nothing(timed, admitted):
    scene = timed()
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    scene.put(0, 0)
    scene.done()
    before = (scene.late(), scene.shown(), scene.ask(JUDGED))
    scene.preview({0: 0, 1: 0, 2: 0})
    assert (scene.late(), scene.shown(), scene.ask(JUDGED)) == before
    if admitted:
        scene.admit()
        assert scene.late() == []
        whole(scene)


def test_a_record_without_a_key_is_named_and_no_window_knows_it(timed):
    scene = timed()
    scene.put(0, 0)
    scene.put(0, 5, key=None)
    with pytest.raises(BadData, match=r"public.house: id of the record at \S+-0 offset 1 is null, and it is the key"):
        scene.done()
    assert scene.ask("select key from lockstep.contribution union all select key from lockstep.window_state") == []
