"""Tests that the database itself keeps a move: by a decision, at rest, all streams at once, and never read again."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.offsets import Bounds, TopicView
from lockstep.ledger.batch.streams import grow, open_streams
from support.fakes.ledger_rows import CLUSTER, TOPIC, TOPIC_ID

COPY = TopicView(CLUSTER, "copy", "id of copy", {0: Bounds(0, 9), 1: Bounds(0, 9)})
TO = {"cluster_id": CLUSTER, "topic": "copy", "topic_id": "id of copy"}
STREAM = """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset,
    position, first_topic) values ('orders', %(cluster)s, %(topic)s, %(id)s, %(partition)s, %(incarnation)s, %(epoch)s,
    %(start)s, %(start)s, %(first)s) returning stream_id"""
GIVEN: dict[str, Any] = {
    "cluster": CLUSTER,
    "topic": "copy",
    "id": "id of copy",
    "partition": 0,
    "incarnation": 1,
    "epoch": 1,
}
GIVEN |= {"start": 7, "first": TOPIC}


def told(stream: int, **other: Any) -> dict[str, Any]:
    moved = {"stream_id": stream, "partition": 0, "position": 10, "offset": 7, "matched": 20}
    return {"digest": "0123456789abcdef", "to": TO, "moved": [moved | other]}


def decide(cur, detail) -> None:
    values = ("orders", json.dumps(detail))
    cur.execute(
        "insert into lockstep.decision (pipeline, kind, who, why, detail) values (%s, 'move', 'me', 'w', %s)", values
    )


def close(cur, stream: int) -> None:
    cur.execute("update lockstep.stream set retired_at = clock_timestamp() where stream_id = %s", (stream,))


def go_on(cur, stream: int, detail, *, closed: bool = True, **other: Any) -> int:
    if detail is not None:
        decide(cur, detail)
    if closed:
        close(cur, stream)
    cur.execute(STREAM, GIVEN | other)
    return cur.fetchone()[0]


def move(conn, stream: int, detail=None, *, closed: bool = True, **other: Any) -> int:
    """Moves the stream as the product does. `other` are values of the successor that are not as they should be."""
    with transaction(conn, OWNER) as cur:
        return go_on(cur, stream, detail or told(stream), closed=closed, **other)


@pytest.fixture
def read(ledger):
    """Returns the stream of a pipeline that has read ten records."""
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})
    return stream


def test_a_decision_to_move_says_digest_log_and_offsets(conn, read):
    half = ({"to": {"topic": "copy"}}, {"moved": [{"offset": 7}]})
    for wrong in ({"digest": "1"}, {"to": None}, {"moved": []}, {"moved": None}, *half):
        with pytest.raises(errors.CheckViolation, match="move_is_told"), transaction(conn, OWNER) as cur:
            decide(cur, told(read) | wrong)


def test_nothing_moves_while_a_batch_or_a_request_is_not_finished(ledger, conn, read):
    batch = ledger.planned({read: (10, 12)})
    with pytest.raises(errors.CheckViolation, match="moved_at_rest: a batch or a request of orders is not finished"):
        move(conn, read)
    ledger.committed(batch, ledger.opened(batch))
    asked = "insert into lockstep.request (pipeline, lane, token, who, why) values ('orders', 'fill', 99, 'me', 'w')"
    ledger.ask(f"{asked} returning 1")
    with pytest.raises(errors.CheckViolation, match="moved_at_rest"):
        move(conn, read, told(read, position=12))
    ledger.ask("update lockstep.request set closed_at = now() returning 1")
    move(conn, read, told(read, position=12))


def test_a_stream_goes_on_in_another_topic_by_a_decision_that_names_its_offset(conn, read):
    match = r"moved_by_decision: no decision lets orders go on in copy-0 at offset 7"
    for detail in (None, told(read, offset=8), told(read, partition=1)):
        with pytest.raises(errors.CheckViolation, match=match), transaction(conn, OWNER) as cur:
            go_on(cur, read, detail)
    move(conn, read)


def test_no_earlier_decision_lets_a_stream_go_on(conn, read):
    there = move(conn, read)
    back = told(there, position=7, offset=10) | {"to": TO | {"topic": TOPIC, "topic_id": TOPIC_ID}}
    old = move(conn, there, back, topic=TOPIC, id=TOPIC_ID, incarnation=2, epoch=2, first=None, start=10)
    with pytest.raises(errors.CheckViolation, match="moved_by_decision"), transaction(conn, OWNER) as cur:
        go_on(cur, old, None, incarnation=3, epoch=3)


def test_at_the_commit_each_open_stream_goes_on_for_a_closed_one_as_decided(conn, read):
    for detail, other in (
        (told(read, position=9), {}),
        (told(read, stream_id=99), {}),
        (told(read), {"id": "another"}),
        (told(read), {"incarnation": 2}),
    ):
        with pytest.raises(
            errors.CheckViolation, match=r"moved_as_decided: partition 0 of orders does not go on where"
        ):
            move(conn, read, detail, **other)
    with pytest.raises(errors.IntegrityError, match="one_open_stream_a_line"):
        move(conn, read, closed=False)


def test_a_stream_that_was_closed_before_is_not_what_moves(conn, ledger, read):
    ledger.retired(read)
    with pytest.raises(errors.CheckViolation, match="moved_as_decided"):
        move(conn, read, closed=False)


def test_a_move_takes_every_open_stream(conn, ledger, read):
    other = ledger.stream(1)
    with pytest.raises(errors.CheckViolation, match="moved_as_decided: partition 1 of orders"):
        move(conn, read)
    with transaction(conn, OWNER) as cur:
        second = {"stream_id": other, "partition": 1, "position": 0, "offset": 0, "matched": 0}
        decide(cur, told(read) | {"moved": [*told(read)["moved"], second]})
        close(cur, read)
        close(cur, other)
        cur.execute(STREAM, GIVEN)
        cur.execute(STREAM, GIVEN | {"partition": 1, "start": 0})


def test_a_moved_stream_is_never_read_or_committed_again(conn, ledger, read):
    moved = move(conn, read)
    for lane in ("live", "replay"):
        with pytest.raises(errors.CheckViolation, match=r"one_log: .* of stream 1 cannot be read again"):
            ledger.planned({read: (0, 10)}, lane=lane)
    with pytest.raises(errors.CheckViolation, match="closed_once: stream 1 is retired"):
        ledger.ask("update lockstep.stream set position = 11 where stream_id = 1 returning 1")
    with pytest.raises(errors.CheckViolation, match="one_log"):
        ledger.ask("insert into lockstep.coverage values (1, int8range(10, 12), 'loss') returning 1")
    with pytest.raises(errors.CheckViolation, match=r"one_log: \[3,9\) of stream 2 begins before its start 7"):
        ledger.planned({moved: (3, 9)}, lane="fill")
    ledger.done({moved: (7, 9)})
    with pytest.raises(errors.CheckViolation, match="closed_once: stream 2 is one incarnation for good"):
        ledger.ask("update lockstep.stream set first_topic = null where stream_id = 2 returning 1")


def test_a_topic_stays_with_its_line_and_has_one_open_stream_and_one_epoch_there(conn, ledger, read):
    moved = move(conn, read)
    for wrong, constraint in (
        ({"topic": TOPIC, "id": TOPIC_ID, "incarnation": 2, "epoch": 2, "first": None}, "one_open_stream_a_line"),
        (
            {"partition": 1, "first": None, "incarnation": 0, "epoch": 0, "start": 0},
            "moved_by_decision|topic_by_decision",
        ),
        ({"first": "copy", "epoch": 5}, "first_topic_is_another"),
    ):
        with pytest.raises(errors.IntegrityError, match=constraint), transaction(conn, OWNER) as cur:
            cur.execute(STREAM, GIVEN | wrong)
    back = told(moved, position=7, offset=10) | {"to": TO | {"topic": TOPIC, "topic_id": TOPIC_ID}}
    with pytest.raises(errors.IntegrityError, match="one_epoch_a_line"):
        move(conn, moved, back, topic=TOPIC, id=TOPIC_ID, incarnation=2, first=None, start=10)
    tombstone = "insert into lockstep.tombstone values ('public.orders', '[1]', 1, 5) returning 1"
    ledger.ask(tombstone)
    assert ledger.ask("update lockstep.tombstone set stream_id = 2 returning 1") == [(1,)], "it is no second topic"


def test_a_topic_that_grows_after_a_move_keeps_line_incarnation_and_the_order_of_epochs(conn, ledger, read):
    move(conn, read)
    with suppress(errors.CheckViolation), transaction(conn, OWNER) as cur:  # what is there afterwards says it
        grow(cur, "orders", COPY, open_streams(cur, "orders"), "me")
    every = "select topic, partition, incarnation, epoch, start_offset, first_topic from lockstep.stream"
    assert sorted(ledger.ask(f"{every} where retired_at is null")) == [
        ("copy", 0, 1, 2, 7, TOPIC),
        ("copy", 1, 0, 2, 0, TOPIC),
    ]
