"""Tests fill, replay, preview and skip with a real broker and a real ledger. Only Spark is left out."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from psycopg2 import errors

from lockstep.adapters.postgres import PLANNER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Blocked, Busy, Caller, Idle, Start
from lockstep.ledger.changes import requests as ledger
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.changes import decisions
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests.plan_request import plan_request
from lockstep.steps.requests.requests import is_complete
from lockstep.steps.upkeep.reap import reap
from support.scenes.here import ME
from support.scenes.odd_logs import grow, messages_in

COVERAGE = """select partition, lower(offsets), upper(offsets), kind, batch_id
              from lockstep.coverage join lockstep.stream using (stream_id) order by 1, 2"""


def more(n: int, start: int) -> list[tuple[str, str]]:
    return [(f"k{i}", json.dumps({"id": f"m{i}", "n": i})) for i in range(start, start + n)]


def rows(here):
    return here.drill.ask("select id, n, _stream, _offset from public.drill order by 1")


def positions(here):
    return here.drill.ask("select partition, position from lockstep.stream where retired_at is null order by 1")


def proved(here) -> bool:
    """Checks that neither the checker nor verify --deep finds a fault."""
    assert here.drill.violations() == []
    checks = verify(here.at.conn, here.at.broker, here.folder_as_run, deep=True)
    assert [check for check in checks if not check.ok] == []
    return True


@pytest.fixture
def several(here):
    """Returns the drill with its 150 records in several batches."""
    here.rewrite("records=200", "records=60")
    here.drain()
    assert len(here.drill.committed()) == 3
    return here


def stamps(here) -> Counter[int]:
    """Counts the records of the topic by their own time, in milliseconds."""
    kafka, topic = here.drill.kafka, here.drill.topic
    return Counter(message.timestamp()[1] for p in range(3) for message in messages_in(kafka, topic, p))


def double(value: dict) -> dict:
    return value | {"n": value["n"] * 2}


def test_a_replay_puts_new_rows_in_the_place_of_old_ones_and_leaves_the_position(several):
    before, stood = rows(several), positions(several)
    several.code = double

    last = several.replay("0:0,1:0,2:0")[-1]

    assert isinstance(last.decision, Idle)
    assert rows(several) == [(i, n * 2, s, o) for i, n, s, o in before]
    assert positions(several) == stood
    assert several.drill.ask("select distinct lane from lockstep.batch b join lockstep.coverage using (batch_id)") == [
        ("replay",)
    ]
    assert proved(several)


def test_the_same_replay_twice_gives_the_same_rows(several):
    several.code = double
    several.replay("0:0,1:0,2:0")
    once = rows(several)
    several.replay("0:0,1:0,2:0")
    assert rows(several) == once
    assert proved(several)


def test_a_window_is_widened_to_whole_segments_and_touches_no_other(several):
    coverage = several.drill.ask(COVERAGE)
    (_, low, high, _, batch), *_ = [row for row in coverage if row[0] == 1]

    asked = several.ask("replay", f"1:{low + 1}", f"1:{low + 2}")
    several.work(asked)

    (window,) = asked.windows
    assert (window.offsets.from_offset, window.offsets.until_offset) == (low, high)
    after = several.drill.ask(COVERAGE)
    assert [row[4] != batch for row in after if row[:2] == (1, low)] == [True]
    assert [row for row in after if row[:2] != (1, low)] == [row for row in coverage if row[:2] != (1, low)]
    assert proved(several)


def test_a_batch_is_a_bound_of_its_own(several):
    (first, *_), *_ = several.drill.committed()
    asked = several.ask("replay", str(first), str(first))
    several.work(asked)
    assert several.drill.ask("select count(*) from public.drill where _batch = %s", first) == [(0,)]
    assert proved(several)


def test_a_time_is_resolved_once_it_is_closed_and_is_the_same_for_all_from_then_on(here, produce):
    here.drain()
    earlier = stamps(here)
    produce(here.drill.topic, more(20, 1_000))
    here.drain()
    later = stamps(here) - earlier
    assert (earlier.total(), later.total()) == (150, 20)
    assert max(earlier) < min(later)
    moment = datetime.fromtimestamp(min(later) / 1000, UTC)  # a look at the clock may fall into their millisecond

    open_still = here.ask("replay", moment.isoformat())
    resolved = here.drill.ask("select count(*) from lockstep.boundary")
    closed = here.ask("replay", moment.isoformat(), now=moment + timedelta(minutes=5))

    assert resolved == [(0,)]
    assert here.drill.ask("select count(*) from lockstep.boundary") == [(3,)]
    assert closed.goes_on
    assert closed.windows == open_still.windows
    here.code = double
    here.work(closed)
    assert here.drill.ask("select count(*) from public.drill where n >= 2000") == [(20,)]
    assert here.drill.ask("select count(*) from public.drill where n < 150") == [(150,)]
    assert proved(here)


def test_what_was_skipped_is_filled_and_every_record_is_there_once(here, produce):
    produce(here.drill.topic, more(30, 5_000))
    assert isinstance(here.plan(dry_run=True), Start)
    here.rewrite("limits=", 'start="earliest", limits=')
    decisions.pause(here.at.conn, "drill", ME)
    here.run()
    decisions.unpause(here.at.conn, "drill", ME)
    here.rewrite("records=200", "records=40")
    here.run()

    skipped = here.skip()
    produce(here.drill.topic, more(25, 6_000))
    here.drain()
    holes = here.drill.ask("select sum(upper(offsets) - lower(offsets)) from lockstep.coverage where kind = 'skipped'")
    assert holes == [(140,)]
    assert len(skipped.ranges) == 3
    assert here.drill.violations() == []
    last = here.fill()[-1]

    assert isinstance(last.decision, Idle)
    assert here.drill.ask("select count(*) from public.drill") == [(205,)]
    assert here.drill.ask("select count(*) from lockstep.coverage where kind <> 'batch'") == [(0,)]
    assert here.drill.ask("select kind, who, why from lockstep.decision where kind = 'skip' limit 1") == [
        ("skip", "me", "a test")
    ]
    assert proved(here)


def test_a_fill_of_a_part_leaves_the_rest_skipped(here):
    here.plan(dry_run=False)
    here.skip()
    end = positions(here)[0][1]

    here.fill("0:5", "0:11")

    assert here.drill.ask(COVERAGE)[:3] == [
        (0, 0, 5, "skipped", None),
        (0, 5, 11, "batch", here.drill.committed()[0][0]),
        (0, 11, end, "skipped", None),
    ]
    assert here.drill.violations() == []
    here.fill()
    assert proved(here)


def test_skipping_abandons_the_batch_that_works_there(here):
    here.plan()
    assert len(here.skip().abandoned) == 1
    assert here.drill.ask("select state from lockstep.batch") == [("abandoned",)]
    assert here.skip().ranges == ()


@pytest.mark.parametrize(
    ("to", "message"),
    [("0:99999", "lies past the stable end"), ("0:1", "skip only goes forward"), ("7:1", "has no partition 7")],
)
def test_a_skip_that_cannot_be_is_refused_and_moves_nothing(here, to, message):
    here.drain()
    stood = positions(here)
    with pytest.raises(Refusal, match=message):
        here.skip(to)
    assert positions(here) == stood
    assert here.drill.ask("select count(*) from lockstep.decision") == [(0,)]


def test_what_lies_before_the_start_can_be_filled(here, produce):
    here.rewrite("limits=", 'start="latest", limits=')
    assert isinstance(here.run().decision, Idle)
    produce(here.drill.topic, more(10, 7_000))
    here.drain()
    assert here.drill.ask("select count(*) from public.drill") == [(10,)]

    here.fill()

    assert here.drill.ask("select count(*) from public.drill") == [(160,)]
    assert proved(here)


def test_a_preview_tells_the_difference_row_by_row_and_changes_nothing(several):
    before, coverage = rows(several), several.drill.ask(COVERAGE)
    several.code = lambda value: None if value["n"] < 10 else double(value) if value["n"] < 30 else value

    found, decision = several.preview("replay")

    assert isinstance(decision, Idle)
    assert found.counts == {"added": 0, "changed": 20, "removed": 10, "unchanged": 120}
    assert {sample["kind"] for sample in found.samples} == {"changed", "removed"}
    changed = next(sample for sample in found.samples if sample["kind"] == "changed")
    assert changed["after"]["n"] == 2 * changed["before"]["n"]
    assert (rows(several), several.drill.ask(COVERAGE)) == (before, coverage)
    assert several.drill.ask("select count(*) from lockstep.claim") == [(0,)]
    assert several.drill.ask("select tablename from pg_tables where schemaname = 'lockstep_staging'") == []
    assert proved(several)


def test_a_preview_of_a_fill_shows_what_would_come(here):
    here.plan()
    here.skip()
    found, _ = here.preview("fill", "0:0", "0:10")
    assert found.counts == {"added": 10, "changed": 0, "removed": 0, "unchanged": 0}
    assert here.drill.ask("select count(*) from public.drill") == [(0,)]


def test_a_preview_whose_process_died_is_never_committed_by_anybody(several):
    asked = several.ask("replay", "0:0", preview=True)
    planned = plan_request(several.at.conn, several.at.broker, several.folder, asked.request_id, Caller("gone"))
    attempt = stage(several.at, several.engine, several.folder, planned.batch_id, Caller("gone"))
    validate(several.at, several.folder, attempt)
    with pytest.raises(errors.CheckViolation, match="preview_commits_nothing"):
        commit(several.at, several.folder, attempt)
    several.drill.ask(
        "set role lockstep_owner; update lockstep.batch set lease_until = now() where state = 'planned' returning 1"
    )

    several.replay()

    assert several.drill.ask("select state from lockstep.batch where batch_id = %s", planned.batch_id) == [
        ("abandoned",)
    ]
    reap(several.at.conn)
    assert several.drill.ask("select count(*) from lockstep.request where preview and closed_at is null") == [(0,)]
    assert proved(several)


def test_live_batches_commit_while_a_replay_is_under_way(several, produce):
    asked = several.ask("replay")
    planned = plan_request(several.at.conn, several.at.broker, several.folder, asked.request_id, Caller("me"))
    attempt = stage(several.at, several.engine, several.folder, planned.batch_id, Caller("me"))
    produce(several.drill.topic, more(30, 8_000))

    assert isinstance(several.run().decision, Start)

    validate(several.at, several.folder, attempt)
    commit(several.at, several.folder, attempt)
    several.work(asked)
    assert several.drill.ask("select count(*) from public.drill") == [(180,)]
    assert proved(several)


def test_two_requests_over_the_same_offsets_both_come_to_an_end(several):
    one, other = several.ask("replay", "0:0"), several.ask("replay", "0:0,1:0")
    several.work(one)
    several.work(other)
    several.work(one)
    assert is_complete(several.at.conn, one.request_id)
    assert is_complete(several.at.conn, other.request_id)
    replayed = several.drill.ask("select count(*) from lockstep.batch where lane = 'replay'")
    assert replayed[0][0] <= 4
    assert proved(several)


def test_a_request_waits_for_the_one_that_works_there_and_finishes_it_when_that_is_over(several):
    first, second = several.ask("replay", "0:0"), several.ask("replay", "0:0,1:0")
    planned = plan_request(several.at.conn, several.at.broker, several.folder, first.request_id, Caller("other"))
    several.work(second, wait=0)
    busy = plan_request(several.at.conn, several.at.broker, several.folder, second.request_id, Caller("me"))
    assert busy.decision == Busy(planned.batch_id, f"batch {planned.batch_id} of other works on these offsets")

    several.work(second, take_over=True)

    assert several.drill.ask("select state from lockstep.batch where batch_id = %s", planned.batch_id) == [
        ("committed",)
    ]
    assert is_complete(several.at.conn, second.request_id)
    assert proved(several)


def test_records_that_are_trimmed_under_a_replay_leave_the_old_rows_alone(several):
    before = rows(several)
    asked = several.ask("replay", "0:0", "0:1")
    planned = plan_request(several.at.conn, several.at.broker, several.folder, asked.request_id, Caller("me"))
    attempt = stage(several.at, several.engine, several.folder, planned.batch_id, Caller("me"))
    trim(several, 0, 3)

    with pytest.raises(Refusal, match=r"records of batch \d+ were deleted"):
        validate(several.at, several.folder, attempt)
    last = several.work(asked)[-1]

    assert isinstance(last.decision, Blocked)
    assert "cannot be read again" in last.decision.reason
    assert several.drill.ask("select state from lockstep.batch where batch_id = %s", planned.batch_id) == [
        ("abandoned",)
    ]
    assert rows(several) == before
    with pytest.raises(Refusal, match="begins below the log's start 3"):
        several.ask("replay", "0:0")


def test_a_fill_takes_what_is_still_there_and_the_rest_can_be_accepted_as_lost(here):
    here.plan()
    here.skip()
    trim(here, 0, 4)

    here.fill()

    assert here.drill.ask(COVERAGE)[0] == (0, 0, 4, "skipped", None)
    stood = positions(here)
    lost = here.drill.topic
    loss = decisions.accept_loss(here.at.conn, here.at.broker, here.folder.pipeline, _range(lost, 0, 0, 4), ME)
    assert loss.changed
    assert here.drill.ask(COVERAGE)[0] == (0, 0, 4, "loss", None)
    assert positions(here) == stood
    here.fill()
    assert proved(here)


def test_a_pause_stops_new_requests_and_not_a_batch_that_was_begun(several):
    asked = several.ask("replay", "0:0")
    planned = plan_request(several.at.conn, several.at.broker, several.folder, asked.request_id, Caller("me"))
    decisions.pause(several.at.conn, "drill", ME)

    several.work(asked, wait=0)

    assert several.drill.ask("select state from lockstep.batch where batch_id = %s", planned.batch_id) == [
        ("committed",)
    ]
    assert "paused" in several.work(several.ask("replay", "1:0"), wait=0)[-1].decision.reason


def test_a_batch_that_a_person_abandons_takes_its_request_along(several):
    asked = several.ask("replay", "0:0")
    planned = plan_request(several.at.conn, several.at.broker, several.folder, asked.request_id, Caller("me"))
    decisions.abandon(several.at.conn, planned.batch_id, ME)
    assert is_complete(several.at.conn, asked.request_id)
    assert several.drill.ask("select count(*) from lockstep.claim") == [(0,)]


def test_a_replay_reaches_back_over_a_topic_that_has_grown(several, produce):
    grow(several.drill.kafka, several.drill.topic, 5)
    produce(several.drill.topic, more(40, 9_000))
    several.drain()
    several.code = double

    several.replay()

    assert several.drill.ask("select count(*), count(*) filter (where n %% 2 = 0) from public.drill") == [(190, 190)]
    assert proved(several)


def test_rejects_are_judged_again(here, produce):
    produce(here.drill.topic, [("k1", "not json"), ("k2", "{")])
    here.drain()
    assert here.drill.ask("select count(*) from lockstep.reject") == [(2,)]
    here.replay()
    replayed = "select count(*), bool_and(lane = 'replay') from lockstep.reject join lockstep.batch using (batch_id)"
    assert here.drill.ask(replayed) == [(2, True)]
    assert proved(here)


def test_a_long_request_is_cut_into_batches_and_goes_on_where_it_stood(several):
    several.rewrite("records=60", "records=25")
    asked = several.ask("replay")
    plan_request(several.at.conn, several.at.broker, several.folder, asked.request_id, Caller("me"))
    again = several.ask("replay")
    assert (again.request_id, again.goes_on) == (asked.request_id, True)
    reports = several.work(again)
    assert len(reports) > 2
    assert is_complete(several.at.conn, asked.request_id)
    assert proved(several)


def test_three_times_given_up_waits_for_a_person(several):
    asked = several.ask("replay", "0:0")
    for _ in range(3):
        planned = plan_request(several.at.conn, several.at.broker, several.folder, asked.request_id, Caller("me"))
        with transaction(several.at.conn, PLANNER) as cur:
            from lockstep.steps.requests.plan_request import give_up  # noqa: PLC0415

            give_up(cur, planned.batch_id, "the moon was wrong")
    blocked = plan_request(several.at.conn, several.at.broker, several.folder, asked.request_id, Caller("me")).decision
    assert isinstance(blocked, Blocked)
    assert f"--request {asked.request_id} --retry" in blocked.next_command
    several.work(asked, retry=True)
    assert is_complete(several.at.conn, asked.request_id)
    with transaction(several.at.conn, PLANNER) as cur:
        assert ledger.open_requests(cur, "drill") == []


def trim(here, partition: int, until: int) -> None:
    admin = AdminClient({"bootstrap.servers": here.drill.kafka})
    where = TopicPartition(here.drill.topic, partition, until)
    admin.delete_records([where])[where].result(20)


def _range(topic: str, partition: int, begin: int, end: int):
    from lockstep.core.offsets import OffsetRange  # noqa: PLC0415
    from lockstep.core.offsets import TopicPartition as Where  # noqa: PLC0415

    return OffsetRange(Where(topic, partition), begin, end)
