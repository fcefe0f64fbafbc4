"""Tests retiring streams, with hand-written ledger rows and a broker with prepared answers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from lockstep.adapters.postgres import OWNER, PLANNER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.definition import Append, Json, Pipeline
from lockstep.ledger.batch.streams import open_streams
from lockstep.steps.changes.retire import retire
from support.fakes.ledger_rows import SayingBroker, commit_in, view
from support.scenes.decision_facts import ME, ORDERS, batch_state, claims, decided


def test_a_recreated_topic_is_begun_anew_in_all_its_partitions_and_one_epoch(conn, ledger):
    first, second = ledger.stream(0), ledger.stream(1)
    ledger.done({first: (0, 10), second: (0, 5)})
    batch = ledger.planned({first: (10, 20)})

    done = retire(conn, SayingBroker(view((3, 9), (0, 9), (2, 9), topic_id="another")), ORDERS, None, ME)

    assert [(s.partition, why) for s, why in done.retired] == [
        (0, "topic id topic-1 became another"),
        (1, "topic id topic-1 became another"),
    ]
    assert (done.opened, done.abandoned) == ({0: 3, 1: 0, 2: 2}, (batch,))
    with transaction(conn, PLANNER) as cur:
        streams = open_streams(cur, "orders")
    assert [(s.partition, s.position, s.incarnation, s.epoch, s.topic_id) for s in streams] == [
        (0, 3, 1, 1, "another"),
        (1, 0, 1, 1, "another"),
        (2, 2, 0, 1, "another"),
    ]
    assert claims(ledger) == []
    assert decided(ledger) == [("retire", "me@here", "because")]


def test_a_topic_of_another_cluster_is_begun_anew(conn, ledger):
    ledger.done({ledger.stream(0): (0, 10)})
    said = []
    with suppress(Refusal):
        said = [why for _, why in retire(conn, SayingBroker(view((0, 20), cluster_id="b")), ORDERS, None, ME).retired]
    assert said == ["cluster id cluster-1 became b"]


def test_one_partition_alone_may_be_retired(conn, ledger):
    ledger.stream(0)
    ledger.stream(1)
    done = retire(conn, SayingBroker(view((3, 9), (0, 9), topic_id="another")), ORDERS, 1, ME)
    assert ([s.partition for s, _ in done.retired], done.opened) == ([1], {1: 0})


def test_the_other_partitions_of_a_recreated_topic_may_be_retired_after_one(conn, ledger):
    ledger.stream(0)
    ledger.stream(1)
    today = SayingBroker(view((3, 9), (0, 9), (2, 9), topic_id="another"))
    retire(conn, today, ORDERS, 1, ME)

    done = retire(conn, today, ORDERS, None, ME)

    assert ([s.partition for s, _ in done.retired], done.opened) == ([0], {0: 3, 2: 2})


def test_a_truncated_log_is_believed_after_three_readings_and_only_its_partition_is_retired(conn, ledger):
    first, second = ledger.stream(0), ledger.stream(1)
    ledger.done({first: (0, 10), second: (0, 10)})
    broker = SayingBroker(view((0, 7), (0, 20)))

    done = retire(conn, broker, ORDERS, None, ME, "log-start")

    assert [(s.partition, why) for s, why in done.retired] == [
        (0, "truncated: the log ends at 7, below the position 10")
    ]
    assert (done.opened, broker.asked) == ({0: 0}, 3)


def test_one_stale_answer_of_a_broker_is_no_truncation(conn, ledger):
    ledger.done({ledger.stream(0): (0, 10)})
    with pytest.raises(Refusal, match="nothing is wrong"):
        retire(conn, SayingBroker(view((0, 7)), view((0, 20))), ORDERS, None, ME)


def test_a_log_that_ends_within_an_unfinished_batch_is_truncated_too(conn, ledger):
    stream = ledger.stream(0)
    batch = ledger.planned({stream: (0, 50)})
    said = []
    with suppress(Refusal):
        said = [why for _, why in retire(conn, SayingBroker(view((0, 30))), ORDERS, 0, ME).retired]
    assert said == ["truncated: the log ends at 30, and a batch was planned up to 50"]
    assert batch_state(ledger, batch) == "abandoned"


def test_a_partition_that_is_gone_is_closed_without_a_successor(conn, ledger):
    ledger.stream(0)
    ledger.stream(1)
    done = retire(conn, SayingBroker(view((0, 9))), ORDERS, None, ME)
    assert ([why for _, why in done.retired], done.opened) == (["the partition is gone"], {})


@pytest.mark.parametrize(
    ("bounds", "partition", "message", "next_command"),
    [
        ((0, 20), None, "nothing is wrong with orders.v1-0: the same log", "lockstep status orders"),
        ((0, 20), 0, "nothing is wrong with orders.v1-0: the same log", "lockstep status orders"),
        ((15, 20), None, r"it is the same log, only \[10, 15\) was deleted from it", "lockstep accept-loss orders"),
        ((0, 20), 3, "partition 3 has no open stream; there are: 0", "lockstep status orders"),
    ],
)
def test_a_healthy_log_is_not_retired_for_its_successor_would_read_it_all_again(
    conn, ledger, bounds, partition, message, next_command
):
    ledger.done({ledger.stream(0): (0, 10)})
    with pytest.raises(Refusal, match=message) as refused:
        retire(conn, SayingBroker(view(bounds)), ORDERS, partition, ME)
    assert refused.value.next_command.startswith(next_command)
    assert decided(ledger) == []


def test_an_offset_to_begin_at_is_one_partitions(conn, ledger):
    first, second = ledger.stream(0), ledger.stream(1)
    ledger.done({first: (0, 10), second: (0, 10)})
    with pytest.raises(Refusal, match="--from 5 is an offset of one partition"):
        retire(conn, SayingBroker(view((0, 7), (0, 7))), ORDERS, None, ME, 5)
    assert decided(ledger) == []


def test_retire_does_not_help_to_another_topic(conn, ledger):
    ledger.stream(0)
    other = view((0, 20))
    moved = Pipeline("orders", "orders.v2", Json("id string"), Append("public.orders"))
    with pytest.raises(Refusal, match="a pipeline keeps its topic for good"):
        retire(conn, SayingBroker(replace(other, topic="orders.v2")), moved, None, ME)


def test_nothing_is_retired_when_a_commit_moved_the_streams_meanwhile(conn, ledger, behind):
    stream = ledger.stream(0)
    batch = ledger.planned({stream: (0, 10)})
    token = ledger.opened(batch)
    broker = SayingBroker(view((0, 10), topic_id="another"))

    with behind("select 1 from lockstep.batch for no key update") as (cur, meanwhile):
        answer = meanwhile(lambda: retire(conn, broker, ORDERS, None, ME))
        commit_in(cur, batch, token)

    assert "its streams moved while the broker was asked; nothing was changed" in answer()
    assert ledger.ask("select count(*) from lockstep.stream where retired_at is null") == [(1,)]


def test_nothing_is_retired_twice_by_two_persons(conn, ledger, behind):
    stream = ledger.stream(0)
    broker = SayingBroker(view((0, 10), topic_id="another"))

    with behind("select 1 from lockstep.pipeline for no key update") as (cur, meanwhile):
        answer = meanwhile(lambda: retire(conn, broker, ORDERS, None, ME))
        cur.execute("update lockstep.stream set retired_at = now() where stream_id = %s", (stream,))

    assert "its streams moved while the broker was asked; nothing was changed" in answer()
    assert decided(ledger) == []


@pytest.mark.parametrize("today", [view((0, 9), topic_id="another"), view((0, 7))], ids=["recreated", "truncated"])
def test_a_replay_of_a_stream_that_growth_closed_is_abandoned_too(conn, ledger, today):
    closed = ledger.stream(0)
    ledger.done({closed: (0, 10)})
    ledger.retired(closed)
    ledger.stream(0, epoch=1, start=10)
    batch = ledger.planned({closed: (0, 10)}, lane="replay")
    with transaction(conn, OWNER) as cur:
        cur.execute("insert into lockstep.request_window values (1, %s, int8range(0, 10))", (closed,))

    done = retire(conn, SayingBroker(today), ORDERS, None, ME, "log-start")

    assert done.abandoned == (batch,)
    assert claims(ledger) == []
    assert ledger.ask("select request_id from lockstep.request where closed_at is not null") == [(1,)]


def test_requests_about_a_retired_stream_are_closed_and_no_others(conn, ledger):
    gone, well = ledger.stream(0), ledger.stream(1)
    ledger.planned({gone: (10, 20)}, lane="fill")
    ledger.planned({well: (10, 20)}, lane="fill")
    with transaction(conn, OWNER) as cur:
        cur.execute(
            "insert into lockstep.request_window values (1, %s, int8range(10, 20)), (2, %s, int8range(10, 20))",
            (gone, well),
        )

    retire(conn, SayingBroker(view((0, 9), (0, 99), topic_id="another")), ORDERS, 0, ME)

    assert ledger.ask("select request_id from lockstep.request where closed_at is not null") == [(1,)]
