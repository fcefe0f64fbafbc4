"""Tests transactions in the log: markers at its end, aborted ranges, transactions that stay open."""

from __future__ import annotations

from lockstep.core.planning.decisions import Idle, Start
from support.scenes.odd_logs import high_end, marked, offsets_in, records, stable_end


def positions(here) -> list[int]:
    return [p for (p,) in here.drill.ask("select position from lockstep.stream order by partition")]


def test_a_marker_at_the_last_offset_is_passed_and_waited_for_by_nobody(elsewhere, produce):
    here = elsewhere()
    produce(here.drill.topic, records(5), 0, "commit")
    end = stable_end(here.drill.kafka, here.drill.topic)
    assert offsets_in(here.drill.kafka, here.drill.topic)[-1] == end - 2  # the last offset is the marker's

    report = here.run()

    assert [(r.until_offset, r.delivered) for r in report.ranges] == [(end, 5)]
    assert positions(here) == [end]
    assert isinstance(here.run().decision, Idle)
    assert here.drill.violations() == []


def test_a_batch_may_consist_of_nothing_but_a_marker(elsewhere, produce):
    here = elsewhere()
    here.rewrite("records=200", "records=5")
    produce(here.drill.topic, records(5), 0, "commit")
    here.run()
    assert stable_end(here.drill.kafka, here.drill.topic) == 6

    report = here.run()

    assert [(r.from_offset, r.until_offset, r.delivered) for r in report.ranges] == [(5, 6, 0)]
    assert here.drill.violations() == []


def test_a_range_that_is_wholly_aborted_is_passed_with_nothing_delivered(elsewhere, produce):
    here = elsewhere()
    here.rewrite("records=200", "records=4")
    produce(here.drill.topic, records(8), 0, "abort")
    assert offsets_in(here.drill.kafka, here.drill.topic) == []
    assert len(offsets_in(here.drill.kafka, here.drill.topic, committed=False)) == 8

    here.drain()

    assert here.drill.ask("select delivered from lockstep.result order by batch_id") == [(0,), (0,), (0,)]
    assert positions(here) == [stable_end(here.drill.kafka, here.drill.topic)]
    assert here.drill.violations() == []


def test_an_open_transaction_holds_the_plan_at_the_stable_end_and_its_records_come_later_once(elsewhere, produce):
    here = elsewhere()
    kafka, name = here.drill.kafka, here.drill.topic
    produce(name, records(3), 0)
    hanging = produce(name, records(4, 10), 0, "open")
    produce(name, records(2, 20), 0)
    assert (stable_end(kafka, name), high_end(kafka, name)) == (3, 9)

    first = here.run()
    waiting = here.run()
    hanging.commit_transaction(20)
    marked(kafka, name, 10)
    here.drain()

    assert [(r.from_offset, r.until_offset) for r in first.ranges] == [(0, 3)]
    assert isinstance(waiting.decision, Idle)
    assert here.drill.ask("select n, count(*) from public.drill group by 1 having count(*) > 1") == []
    assert here.drill.ask("select count(*) from public.drill") == [(9,)]
    assert here.drill.violations() == []


def test_records_of_an_aborted_transaction_between_committed_ones_reach_no_row(elsewhere, produce):
    here = elsewhere()
    produce(here.drill.topic, records(3), 0, "commit")
    produce(here.drill.topic, records(3, 100), 0, "abort")
    produce(here.drill.topic, records(3, 200), 0, "commit")
    assert len(offsets_in(here.drill.kafka, here.drill.topic, committed=False)) == 9

    report = here.run()

    assert isinstance(report.decision, Start)
    assert [(r.delivered, r.until_offset) for r in report.ranges] == [(6, 12)]
    assert here.drill.ask("select count(*) from public.drill where n between 100 and 199") == [(0,)]
    assert here.drill.violations() == []
