"""Tests hours of a real log: dated records, skips that are filled, transactions that stay open."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lockstep.adapters.postgres import OWNER, READER, transaction
from lockstep.core.planning.hours import HOUR, Complete
from lockstep.ledger.views import hours as kept
from lockstep.steps.batch.hours import judge_hours, keep_hours, told_from
from lockstep.steps.changes.skip import skip
from support.fakes.dated import on_a_new_topic, send
from support.scenes.here import ME
from support.scenes.odd_logs import stable_end, until
from support.scenes.several import Several

NOW = datetime.now(UTC)
TEN = NOW.replace(minute=0, second=0, microsecond=0) - 10 * HOUR  # ten o'clock, for readers of the test


def at(hours: float) -> datetime:
    return TEN + hours * HOUR


@pytest.fixture
def clock(here, topic):
    """Returns the drill over a new topic of two partitions, planned for the first time at ten."""
    on_a_new_topic(here, topic, 2)
    here.run()
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("update lockstep.stream set opened_at = %s", (at(0),))
    return here


def hours(here, now: datetime):
    found = keep_hours(here.at.conn, here.at.broker, here.folder.pipeline, now)
    with transaction(here.at.conn, READER) as cur:
        return found, kept.hours(cur, "drill", None)


def parts(hour: dict) -> list[tuple[int, int, int]]:
    return [(part["partition"], part["from_offset"], part["until_offset"]) for part in hour["offsets"]]


def test_an_hour_is_complete_when_all_records_up_to_its_end_are_committed(clock):
    send(clock, 0, [at(0.1), at(0.9), at(1.2), at(0.8), at(2.1)])
    send(clock, 1, [at(0.5)])

    before, _ = hours(clock, at(1.5))
    clock.drain()
    found, (first,) = hours(clock, at(1.5))

    assert before.waiting.reason == f"{clock.drill.topic}-0 [0, 2) is not committed yet"
    assert found.hours == (at(1),)
    assert (parts(first), first["batches"]) == ([(0, 0, 2), (1, 0, 1)], [1])
    _, (_, second, *rest) = hours(clock, at(4.5))
    assert parts(second) == [(0, 2, 4)], "what came late belongs to the hour that is open"
    assert [parts(hour) for hour in rest] == [[(0, 4, 5)], []], "nothing came in the last one, and it is complete"
    assert clock.drill.violations() == []


def test_a_topic_in_which_nothing_ever_comes_completes_its_hours(clock):
    found, listed = hours(clock, at(3.5))
    assert found.hours == (at(1), at(2), at(3))
    assert [hour["batches"] for hour in listed] == [[], [], []]


def test_a_skip_holds_the_hours_until_it_is_filled_and_then_the_fill_proves_it(clock):
    send(clock, 0, [at(0.1), at(0.2), at(1.5)])
    clock.skip("0:2")
    clock.drain()
    found, listed = hours(clock, at(1.5))
    assert (listed, found.waiting.reason) == ([], f"{clock.drill.topic}-0 [0, 2) was skipped")

    clock.fill("0:0", "0:2")

    _, (first,) = hours(clock, at(1.5))
    ((batch,),) = clock.drill.ask("select batch_id from lockstep.batch where lane = 'fill'")
    assert first["batches"] == [batch]


def test_an_open_transaction_holds_the_hour_that_its_records_may_be_of(clock, produce):
    send(clock, 0, [at(0.1)])
    clock.drain()
    hanging = produce(clock.drill.topic, [("k", '{"id": "x", "n": 1}')], 0, "open")

    found, listed = hours(clock, at(1.5))

    assert (listed, found.waiting.reason) == (
        [],
        f"{clock.drill.topic}-0: an open transaction from 1 on may hold records of it",
    )
    hanging.abort_transaction(20)
    until(lambda: stable_end(clock.drill.kafka, clock.drill.topic) == 3, "the abort's marker is not there")
    clock.drain()
    assert len(hours(clock, at(1.5))[1]) == 1


def test_times_that_a_replay_has_resolved_are_those_of_the_hours(clock):
    send(clock, 0, [at(0.1), at(1.1), at(2.1)])
    clock.drain()
    clock.replay(at(1).isoformat(), at(2).isoformat(), now=NOW)
    hours(clock, at(3.5))
    resolved = clock.drill.ask(
        'select at, count(distinct "offset"), min("offset") from lockstep.boundary join lockstep.stream using (stream_id)'
        " where partition = 0 group by 1 order by 1"
    )
    assert resolved == [(at(n), 1, n) for n in range(4)]


def test_a_record_from_the_future_takes_no_hour_its_records(clock):
    send(clock, 0, [at(0.1), NOW + 9_000 * HOUR, at(0.2)])
    clock.drain()
    _, (first,) = hours(clock, at(1.2))
    send(clock, 0, [at(1.3), at(1.4)])
    clock.drain()
    _, (_, second) = hours(clock, at(2.2))
    assert (parts(first), parts(second)) == ([(0, 0, 3)], [(0, 3, 5)])


def judged(here, since: datetime, now: datetime):
    return judge_hours(here.at.conn, here.at.broker, here.folder.pipeline, since, now)


def test_hours_before_the_first_plan_are_judged_and_not_recorded(clock):
    send(clock, 0, [at(-2.9), at(-2.1), at(-1.5), at(0.1)])
    send(clock, 1, [at(-0.5)])
    clock.drain()
    assert told_from(clock.at.conn, clock.folder.pipeline, at(1.5)) == at(0)
    assert hours(clock, at(1.5))[0].hours == (at(1),)

    found = judged(clock, at(-3.5), at(1.5))

    assert [(hour.until, isinstance(hour, Complete)) for hour in found] == [(at(n), True) for n in (-2, -1, 0)]
    assert [[(p.from_offset, p.until_offset) for p in hour.offsets] for hour in found] == [
        [(0, 2), (0, 0)],
        [(2, 3), (0, 0)],
        [(3, 3), (0, 1)],
    ]
    assert [hour.batches for hour in found] == [(1,), (1,), (1,)]
    _, listed = hours(clock, at(1.5))
    assert [hour["until"] for hour in listed] == [at(1)], "what is told to others begins where it did"
    assert judged(clock, at(0), at(1.5)) == []


def test_an_older_hour_waits_for_what_was_skipped_and_is_unknown_where_its_records_may_be_deleted(clock):
    send(clock, 0, [at(-2.5), at(-1.9), at(-0.5), at(0.1)])
    clock.skip("0:2")
    clock.drain()

    skipped, again, third = judged(clock, at(-3), at(1.5))

    assert skipped.reason == f"{clock.drill.topic}-0 [0, 1) was skipped"
    assert skipped.next_command == "lockstep fill drill --from 0:0 --until 0:1"
    assert again.reason == f"{clock.drill.topic}-0 [1, 2) was skipped"
    assert isinstance(third, Complete)

    admin = AdminClient({"bootstrap.servers": clock.drill.kafka})
    for future in admin.delete_records([TopicPartition(clock.drill.topic, 0, 1)]).values():
        future.result(20)
    deleted, *_ = judged(clock, at(-4), at(1.5))
    assert deleted.reason == f"{clock.drill.topic}-0: the log now starts at 1: records of it may be deleted"


@pytest.mark.long
def test_hours_of_several_topics_are_complete_when_all_of_them_are(here, produce, topic):
    several = Several(here, produce, topic(partitions=1))
    eu, us = (several.make(end, partitions=1) for end in ("eu", "us"))
    several.say(several.like())
    several.run()
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("update lockstep.stream set opened_at = %s", (at(0),))

    def dated(name: str, *moments: float) -> None:
        here.drill.topic = name
        send(here, 0, map(at, moments))

    def parts_by_topic(hour: dict) -> list[tuple[str, int, int]]:
        return [(part["topic"], part["from_offset"], part["until_offset"]) for part in hour["offsets"]]

    dated(eu, 0.1, 0.9, 1.2, 2.1, 3.1)
    dated(us, 0.5, 1.1, 2.2)
    waits, _ = hours(here, at(1.5))
    assert waits.waiting.reason == f"{eu}-0 [0, 2) is not committed yet"
    several.drain()
    assert [parts_by_topic(hour) for hour in hours(here, at(1.5))[1]] == [[(eu, 0, 2), (us, 0, 1)]]

    uk = several.make("uk", partitions=1)
    dated(uk, 0.2, 1.9, 2.3)
    assert hours(here, at(2.5))[0].waiting.next_command == "lockstep plan drill"
    several.drain()
    _, (_, second) = hours(here, at(2.5))
    assert parts_by_topic(second) == [(eu, 2, 3), (uk, 0, 2), (us, 1, 2)], (
        "what is late belongs to the hour that is open"
    )
    (earlier,) = judged(here, at(-1), at(2.5))
    assert isinstance(earlier, Complete)
    assert {(str(each.topic_partition), each.until_offset) for each in earlier.offsets} == {
        (f"{name}-0", 0) for name in (eu, uk, us)
    }

    dated(uk, 3.5)
    skip(here.at.conn, here.at.broker, here.folder.pipeline, None, ME, NOW, topic=uk)
    several.drain()
    skipped, _ = hours(here, at(5))
    assert skipped.waiting.reason == f"{uk}-0 [3, 4) was skipped"
    assert skipped.waiting.next_command == f"lockstep fill drill --topic {uk} --from 0:3 --until 0:4"
    several.delete("us")
    gone, _ = hours(here, at(5))
    assert gone.waiting.next_command == f"lockstep retire drill --topic {us} --reason ..."
    several.retire(us)
    several.delete("uk")
    several.retire(uk)
    found, listed = hours(here, at(5.5))
    assert found.hours == (at(4), at(5))
    assert [parts_by_topic(hour) for hour in listed[2:]] == [
        [(eu, 3, 4), (uk, 2, 3), (us, 2, 3)],
        [(eu, 4, 5), (uk, 3, 4)],
        [],
    ]
