"""Tests that the database itself keeps a pipeline's topics: opened by a decision, and gone on where they were left."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import OWNER, transaction
from support.fakes.ledger_rows import CLUSTER, TOPIC

STREAM = """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset,
    position) values ('orders', %s, %s, %s, %s, 0, %s, %s, %s) returning stream_id"""


def tell(conn, topics) -> None:
    with transaction(conn, OWNER) as cur:
        decide(cur, topics)


def decide(cur, topics) -> None:
    cur.execute(
        "insert into lockstep.decision (pipeline, kind, who, why, detail) values ('orders', 'topic', 'me', 'why', %s)",
        (json.dumps(topics),),
    )


def stream(conn, topic=TOPIC, partition=0, epoch=0, start=0, *, decided=None, then=()) -> int:
    with transaction(conn, OWNER) as cur:
        if decided is not None:
            decide(cur, {"topics": decided})
        cur.execute(STREAM, (CLUSTER, topic, f"id of {topic}", partition, epoch, start, start))
        (stream_id,) = cur.fetchone()
        for statement in then:
            cur.execute(statement, {"s": stream_id})
        return stream_id


@pytest.fixture
def orders(ledger):
    ledger.stream(0)
    return ledger


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    "detail",
    [{}, {"topics": []}, {"topics": {}}, {"topics": {"eu": 0}}, {"topics": {"eu": {"0": 0}, "us": None}}],
    ids=["nothing", "a list", "none", "no partitions", "one without"],
)
def test_a_decision_about_topics_says_where_each_of_them_begins(conn, detail):
    with pytest.raises(errors.CheckViolation, match="topic_is_told"):
        tell(conn, detail)


@pytest.mark.parametrize(
    "decided",
    [None, {"us": {"0": 0}}, {"eu": {"1": 0}}, {"eu": {"0": 1}}],
    ids=["no decision", "another topic", "another partition", "another offset"],
)
def test_a_second_topic_is_read_from_where_a_decision_says_and_from_nowhere_else(orders, conn, decided):
    with pytest.raises(
        errors.CheckViolation, match=r"topic_by_decision: no decision lets orders read eu-0 from offset 0"
    ):
        stream(conn, "eu", decided=decided)
    stream(conn, "eu", decided={"eu": {"0": 0}})
    assert orders.ask("select topic from lockstep.stream order by stream_id") == [(TOPIC,), ("eu",)]
    stream(conn, "eu", partition=1)  # it has grown, which is a decision of another kind


@pytest.mark.usefixtures("orders")
def test_a_stream_of_the_same_log_begins_where_the_one_before_it_ended(conn):
    gone = ("update lockstep.stream set retired_at = now() where stream_id = %(s)s",)
    stream(conn, partition=5, start=40, then=gone)
    for start in (0, 39, 41):
        with pytest.raises(
            errors.CheckViolation, match=rf"begins_where_it_ended: {TOPIC}-5 begins at {start}, .* ended at 40"
        ):
            stream(conn, partition=5, epoch=1, start=start)
    stream(conn, partition=5, epoch=1, start=40)


def test_a_deletion_stays_with_its_topic(orders, conn):
    other = stream(conn, "eu", decided={"eu": {"0": 0}})
    grown = stream(conn, partition=1)
    tombstone = "insert into lockstep.tombstone values ('public.orders', '[1]', 1, 5) returning stream_id"
    assert orders.ask(tombstone) == [(1,)]
    with pytest.raises(errors.CheckViolation, match=r"key_of_one_topic: a key of public\.orders was deleted in topic"):
        orders.ask("update lockstep.tombstone set stream_id = %(s)s returning stream_id", s=other)
    assert orders.ask("update lockstep.tombstone set stream_id = %(s)s returning stream_id", s=grown) == [(grown,)]
    moved = 'update lockstep.tombstone set stream_id = %(s)s, "order" = %(o)s returning stream_id'
    orders.ask(moved, s=grown, o=b"5")
    for older in (b"5", b"4", None):
        with pytest.raises(errors.CheckViolation, match="key_of_one_topic"):
            orders.ask(moved, s=other, o=older)
    assert orders.ask(moved, s=other, o=b"6") == [(other,)], "the source's log orders the two"


def test_a_batch_of_another_topic_keeps_no_deletion(orders, conn):
    eu = stream(conn, "eu", epoch=1, decided={"eu": {"0": 0}})
    with transaction(conn, OWNER) as cur:
        cur.execute("insert into lockstep.tombstone values ('public.orders', '[1]', %s, 5)", (eu,))
    assert orders.planned({1: (0, 5)})
    gone = []
    with suppress(errors.CheckViolation):
        gone = orders.ask("delete from lockstep.tombstone returning stream_id")
    assert gone == [(eu,)]
