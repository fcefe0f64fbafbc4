"""Tests the answers of the reading commands for hand-written ledger rows, on a real Postgres."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lockstep.adapters.os_user import os_user
from lockstep.core.pipeline.definition import Json, Pipeline, Upsert
from lockstep.ledger.views import reading
from lockstep.steps.inspect.holes import holes
from lockstep.steps.inspect.status import status
from support.fakes.ledger_rows import NOON, SayingBroker, read, view

ORDERS = Pipeline("orders", "orders.v1", Json("id string, n int", key="id"), Upsert("public.orders", ("id",)))


def only_stream(conn, broker, now=NOON):
    (stream,) = status(conn, broker, ORDERS, now)["streams"]
    return stream


def test_a_pipeline_that_was_never_planned_has_no_streams_and_no_holes(conn):
    assert status(conn, SayingBroker(view((0, 9))), ORDERS, NOON) == {
        "pipeline": "orders",
        "health": "not planned yet",
        "conditions": [
            {
                "state": "not planned yet",
                "message": "no plan has read its topic yet",
                "next": "lockstep run orders",
            }
        ],
        "paused": False,
        "dag_paused": None,
        "forgotten": None,
        "promoted": None,
        "asks_kafka": True,
        "unfinished": [],
        "under_way": [],
        "interrupted": [],
        "complete_through": None,
        "feeds": [],
        "lag_records": 9,
        "oldest_waiting_seconds": None,
        "behind_after_seconds": None,
        "requests": [],
        "streams": [],
        "warnings": [],
    }
    assert holes(conn, SayingBroker(view((0, 9))), ORDERS) == []
    assert read(conn, reading.read_batches, "orders") == []


def test_status_tells_positions_beside_bounds_and_the_age_of_what_was_committed_last(conn, ledger):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 40)}, at=NOON - timedelta(seconds=90))

    assert only_stream(conn, SayingBroker(view((5, 100)))) == {
        "topic": "orders.v1",
        "partition": 0,
        "position": 40,
        "log_start": 5,
        "stable_end": 100,
        "lag_records": 60,
        "lag_seconds": 90.0,
        "oldest_waiting_seconds": None,
        "headroom_records": 35,
        "headroom_seconds": None,
        "holes": 0,
        "skipped": 0,
    }


@pytest.mark.parametrize(
    ("end", "kept", "seconds"),
    [
        (100, timedelta(minutes=10), 510.0),
        (100, timedelta(minutes=1), 0.0),
        (100, None, None),
        (40, timedelta(minutes=10), None),
    ],
    ids=["ten minutes less the lag", "overtaken already", "kept for ever", "nothing waits"],
)
def test_headroom_is_what_retention_leaves_of_the_oldest_record_that_waits(conn, ledger, end, kept, seconds):
    ledger.done({ledger.stream(0): (0, 40)}, at=NOON - timedelta(seconds=90))
    broker = SayingBroker(view((5, end)))
    broker.kept = kept
    assert only_stream(conn, broker)["headroom_seconds"] == seconds


def test_headroom_rests_on_the_waiting_records_own_time_where_it_has_one(conn, ledger):
    ledger.done({ledger.stream(0): (0, 40)}, at=NOON - timedelta(seconds=90))
    broker = SayingBroker(view((5, 100)))
    broker.kept, broker.times = timedelta(minutes=10), {0: NOON - timedelta(seconds=30)}
    assert only_stream(conn, broker)["headroom_seconds"] == 570.0


@pytest.mark.parametrize(
    ("end", "newest", "seconds"),
    [
        (40, NOON - timedelta(hours=3), 0.0),  # nothing is behind, however old it is
        (41, NOON + timedelta(hours=1), 0.0),  # a record from the future does not make the lag negative
    ],
)
def test_lag_seconds_is_never_negative_and_zero_at_the_end(conn, ledger, end, newest, seconds):
    ledger.done({ledger.stream(0): (0, 40)}, at=newest)
    assert only_stream(conn, SayingBroker(view((0, end))))["lag_seconds"] == seconds


def test_lag_seconds_looks_past_batches_that_delivered_nothing(conn, ledger):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 40)}, at=NOON - timedelta(seconds=7))
    ledger.done({stream: (40, 41)}, delivered=0)
    assert only_stream(conn, SayingBroker(view((0, 50))))["lag_seconds"] == 7.0


def test_lag_seconds_is_unknown_before_the_first_commit(conn, ledger):
    ledger.stream(0)
    assert only_stream(conn, SayingBroker(view((0, 50))))["lag_seconds"] is None


def test_a_recreated_topics_bounds_are_not_compared_with_old_positions(conn, ledger):
    ledger.done({ledger.stream(0): (0, 40)})
    stream = only_stream(conn, SayingBroker(view((0, 3), topic_id="another")))
    assert (stream["position"], stream["stable_end"], stream["lag_records"], stream["lag_seconds"]) == (
        40,
        None,
        None,
        None,
    )


def test_retired_streams_are_not_in_the_status(conn, ledger):
    ledger.retired(ledger.stream(0))
    ledger.stream(0, incarnation=1, epoch=1)
    only_stream(conn, SayingBroker(view((0, 50))))


def test_unfinished_batches_and_the_pause_are_told(conn, ledger):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    ledger.ask("update lockstep.pipeline set paused = true returning name")
    told = status(conn, SayingBroker(view((0, 10))), ORDERS, NOON)
    assert (told["unfinished"], told["paused"]) == ([batch], True)


def test_holes_are_what_lies_before_the_start_and_what_was_skipped_and_losses_are_listed_but_not_counted(conn, ledger):
    stream = ledger.stream(0, start=30)
    ledger.done({stream: (30, 50)})
    ledger.covered(stream, 50, 60, "skipped")
    ledger.covered(stream, 60, 65, "loss")
    ledger.ask(
        "insert into lockstep.decision (pipeline, kind, who, why, detail) values ('orders', 'accept-loss', %(me)s, 'gone',"
        " jsonb_build_object('stream_id', %(s)s, 'from_offset', 60, 'until_offset', 65)) returning 1",
        s=stream,
        me=os_user(),
    )
    broker = SayingBroker(view((10, 100)))

    found = holes(conn, broker, ORDERS)
    listed = [(h["from_offset"], h["until_offset"], h["kind"], h["why"].rpartition("): ")[2]) for h in found]

    assert listed == [
        (10, 30, "uncovered", "before the start"),
        (50, 60, "skipped", "because"),
        (60, 65, "loss", f"{os_user()}: gone"),
    ]
    assert only_stream(conn, broker)["holes"] == 2


def test_what_retention_took_is_no_hole_any_more(conn, ledger):
    stream = ledger.stream(0, start=30)
    ledger.covered(stream, 30, 60, "skipped")
    assert [(h["from_offset"], h["until_offset"]) for h in holes(conn, SayingBroker(view((45, 99))), ORDERS)] == [
        (45, 60)
    ]


def test_a_log_start_past_the_position_leaves_no_hole_to_fill(conn, ledger):
    ledger.stream(0, start=30)
    assert holes(conn, SayingBroker(view((80, 99))), ORDERS) == []


def test_what_the_stream_before_a_growth_covered_is_no_hole_of_its_successor(conn, ledger):
    old = ledger.stream(0)
    ledger.done({old: (0, 50)})
    ledger.retired(old)
    ledger.stream(0, start=50, epoch=1)
    assert holes(conn, SayingBroker(view((0, 99))), ORDERS) == []


def test_what_another_incarnation_covered_does_not_count_for_todays_log(conn, ledger):
    old = ledger.stream(0)
    ledger.done({old: (0, 50)})
    ledger.retired(old)
    ledger.stream(0, start=20, incarnation=1, epoch=1, topic_id="another")
    found = [
        (h["from_offset"], h["until_offset"])
        for h in holes(conn, SayingBroker(view((0, 99), topic_id="another")), ORDERS)
    ]
    assert found == [(0, 20)]


def test_batches_are_told_oldest_first_with_what_they_wrote(conn, ledger):
    first, second = ledger.stream(0), ledger.stream(1)
    done = ledger.planned({first: (0, 10), second: (0, 5)}, key="run-1")
    ledger.opened(done, "scheduled-1")
    token = ledger.opened(done, "scheduled-1")
    ledger.committed(done, token, rejected=2, filtered=1)
    planned = ledger.planned({first: (10, 12)})

    told = read(conn, reading.read_batches, "orders")

    assert [document["batch"] for document in told] == [done, planned]
    assert told[0] == told[0] | {
        "lane": "live",
        "state": "committed",
        "keys": ["run-1"],
        "planned_at": NOON,
        "committed_at": NOON + timedelta(seconds=5),
        "attempts": 2,
        "dag_run_ids": ["scheduled-1"],
        "rows_written": 9,
        "rows_rejected": 4,
    }
    assert told[0]["ranges"][0] == {
        "topic": "orders.v1",
        "partition": 0,
        "from_offset": 0,
        "until_offset": 10,
        "delivered": 10,
        "written": 7,
        "rejected": 2,
        "filtered": 1,
        "attempt": token,
    }
    assert (told[1]["committed_at"], told[1]["rows_written"], told[1]["ranges"][0]["delivered"]) == (None, 0, None)
    assert [document["batch"] for document in read(conn, reading.read_batches, "orders", last=1)] == [planned]


def test_one_batch_is_told_with_its_attempts_verdict_and_seconds(conn, ledger):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    superseded = ledger.opened(batch)
    token = ledger.opened(batch, "manual-1")
    ledger.ask(
        "insert into lockstep.verdict (batch_id, token, definition_hash, suite, success, result)"
        " values (%(b)s, %(t)s, 'd1', 'orders', true, '{}')"
        " returning 1",
        b=batch,
        t=token,
    )
    ledger.committed(batch, token)

    told = read(conn, reading.read_batch, batch)

    assert [(a["attempt"], a["state"]) for a in told["attempts"]] == [(superseded, "superseded"), (token, "committed")]
    assert told["seconds"] == {"stage": 2.0, "validate": 1.0, "commit": 0.5, "total": 5.0}
    assert (told["verdict"]["attempt"], told["verdict"]["success"], told["effect"]) == (token, True, {"inserted": 1})


def test_a_batch_that_nobody_tried_yet_and_one_that_is_not_there(conn, ledger):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    told = read(conn, reading.read_batch, batch)
    assert (told["attempts"], told["verdict"], told["effect"]) == ([], None, None)
    assert read(conn, reading.read_batch, batch + 1) is None
