"""Tests that a stream begins and ends by a decision that names it, and that what is remembered of its log stays."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg2
import pytest

from lockstep.adapters.postgres import connect, transaction
from lockstep.ledger.proof.streams import streams_check
from lockstep.ledger.proof.verify import streams_ever
from lockstep.steps.proof.verify_given_up import begin_check
from support.fakes.ledger_rows import SayingBroker, commit_in, read, view
from support.scenes.decision_facts import ORDERS

OPEN = """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset,
        position)
    select pipeline, cluster_id, topic, {topic_id}, {partition}, {incarnation}, {epoch}, {start}, {start}
    from lockstep.stream where stream_id = {s}"""
CLOSE = "update lockstep.stream set retired_at = clock_timestamp() where stream_id = {s}"
DECIDE = "insert into lockstep.decision (pipeline, kind, who, why, detail) values (%s, %s, 'me', 'because', %s)"
TOMB = """insert into lockstep.tombstone (target, key, stream_id, "offset")
    values ('public.orders', '["a"]', {s}, 5) returning 1"""
FORGET = "delete from lockstep.tombstone"


@pytest.fixture
def act(database):
    """Returns `act(statement, ...)`: a planner's statements in one transaction, and the constraint that refused it."""
    with closing(connect(database)) as session:

        def run(*statements: Any) -> str | None:
            try:
                with transaction(session, "lockstep_planner") as cur:
                    for statement in statements:
                        cur.execute(*(statement if isinstance(statement, tuple) else (statement,)))
            except psycopg2.Error as error:
                return error.diag.constraint_name or str(error)
            return None

        yield run


def opens(s: int, start: int, partition: int = 0, incarnation: int = 1, epoch: int = 1, topic_id: str = "topic_id"):
    where = {"partition": partition, "incarnation": incarnation, "epoch": epoch, "topic_id": topic_id}
    return OPEN.format(s=s, start=start, **where)


def decides(kind: str, pipeline: str = "orders", **detail: Any) -> tuple[str, tuple[str, str, str]]:
    return DECIDE, (pipeline, kind, json.dumps(detail))


def retires(s: int, start: int, partition: int = 0, **how: str):
    opened = [{"partition": partition, "start_offset": start}]
    return decides("retire", retired=[{"stream_id": s, "position": 10}], opened=opened, **how)


BEGINNINGS: dict[str, dict[str, Any]] = {
    "after the position": {"start": 15},
    "after the position, under another id": {"start": 15, "topic_id": "'another'"},
    "before the position": {"start": 0},
    "at the position of another log": {"start": 10, "topic_id": "'another'"},
    "late in a partition that is new": {"start": 1000, "partition": 7, "incarnation": 0},
    "late in a partition that is new, in the first epoch": {
        "start": 1000,
        "partition": 7,
        "incarnation": 0,
        "epoch": 0,
    },
}


@pytest.fixture
def read_log(ledger) -> int:
    s = ledger.stream(0)
    ledger.done({s: (0, 10)})
    return s


@pytest.mark.parametrize("where", BEGINNINGS.values(), ids=BEGINNINGS)
def test_no_stream_begins_where_no_decision_of_its_transaction_says(act, read_log, where):
    begin, partition = where["start"], where.get("partition", 0)
    closes = [CLOSE.format(s=read_log)] if partition == 0 else []
    its = opens(read_log, **where)
    assert act(*closes, its) == "begins_by_decision"
    assert act(retires(read_log, begin + 1, partition), *closes, its) == "begins_by_decision"
    assert act(retires(read_log, begin, partition + 1), *closes, its) == "begins_by_decision"
    assert act(retires(999, begin, partition), *closes, its) == "begins_by_decision"
    assert act(retires(read_log, begin, partition)) is None
    assert act(*closes, its) == "begins_by_decision", "the decision of an earlier transaction counts for nothing"
    assert act(retires(read_log, begin, partition), *closes, its) is None


DECISIONS: dict[str, dict[str, Any]] = {
    "topic": {"topics": {"orders.v1": {"0": 15}}},
    "hand-over": {"to": "orders", "positions": {"0": 15}, "retired": [{"stream_id": 1}]},
}


@pytest.mark.parametrize("kind", DECISIONS)
def test_each_decision_opens_the_offset_that_it_names(ledger, act, read_log, kind):
    closes = () if kind == "hand-over" else (decides("retire", retired=[{"stream_id": read_log}], opened=[]),)
    for begin, refused in ((14, "begins_by_decision"), (15, None)):
        said = decides(kind, **DECISIONS[kind])
        assert act(said, *closes, CLOSE.format(s=read_log), opens(read_log, begin)) == refused
    assert ledger.ask("select start_offset from lockstep.stream where retired_at is null") == [(15,)]


@pytest.mark.usefixtures("ledger")
def test_the_first_streams_of_a_pipeline_begin_where_its_definition_says(act):
    first = """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset,
        position) values ('orders', 'c', 't', 'i', 0, 0, 0, 5, 5), ('orders', 'c', 't', 'i', 1, 0, 0, 7, 7)"""
    assert act("insert into lockstep.pipeline (name) values ('orders')", first) is None


def test_growth_goes_on_where_each_log_ended_and_new_partitions_begin_at_0(act, read_log):
    grown = (
        CLOSE.format(s=read_log),
        opens(read_log, 10, incarnation=0),
        opens(read_log, 0, partition=1, incarnation=0),
    )
    assert act(*grown) == "ends_by_decision"
    assert act(CLOSE.format(s=read_log), decides("grow")) == "ends_by_decision", "nothing goes on there"
    assert act(*grown, decides("grow")) is None


def test_a_partition_that_growth_brings_back_in_another_log_is_read_from_0(ledger, act, read_log):
    ledger.stream(1)
    again = (opens(read_log, 0, topic_id="'another'"), opens(read_log, 0, partition=1, topic_id="'another'"))
    closes = (CLOSE.format(s=read_log), CLOSE.format(s=2))
    assert act(*closes, *again) == "ends_by_decision", "nobody has closed them"
    closed = decides("retire", retired=[{"stream_id": read_log}, {"stream_id": 2}], opened=[])
    assert act(closed, *closes, again[0]) is None
    assert act(opens(read_log, 3, partition=1, topic_id="'another'")) == "begins_by_decision"
    assert act(again[1]) is None


def test_no_stream_ends_without_a_decision_that_names_it(ledger, act, read_log):
    other = ledger.stream(1)
    closes = CLOSE.format(s=read_log)
    assert act(closes) == "ends_by_decision"
    assert act(closes, decides("retire", retired=[{"stream_id": other}])) == "ends_by_decision"
    assert act(closes, decides("hand-over", to="orders", positions={"0": 10}, retired=[])) == "ends_by_decision"
    assert act(closes, decides("retire", retired=[{"stream_id": read_log}])) is None


def test_what_upkeep_has_passed_stays_passed(act, read_log):
    passed = f"update lockstep.stream set upkept_below = {{}} where stream_id = {read_log}"
    assert act(passed.format(6)) is None
    assert act(passed.format(5)) == "upkept_stays"
    assert act(passed.format(6)) is None


def test_a_deletion_stays_while_the_log_goes_on_after_growth(ledger, act, read_log):
    ledger.ask(TOMB.format(s=read_log))
    grown = (CLOSE.format(s=read_log), opens(read_log, 10, incarnation=0), decides("grow"))
    assert act(*grown, FORGET) == "memory_stays"
    assert act(*grown) is None
    assert act(FORGET) == "memory_stays"
    assert act("update lockstep.stream set upkept_below = 6 where retired_at is null", FORGET) is None


def test_a_deletion_goes_with_the_log_that_is_read_no_more(ledger, act, read_log):
    ledger.ask(TOMB.format(s=read_log))
    assert act(CLOSE.format(s=read_log), FORGET) == "ends_by_decision"
    assert act(retires(read_log, 0), CLOSE.format(s=read_log), opens(read_log, 0, topic_id="'another'"), FORGET) is None


def take_out_and_give_up(conn, table: str, batch: int) -> None:
    with transaction(conn, "lockstep_committer") as cur:
        cur.execute(f"delete from lockstep.{table}")
        cur.execute("set local role lockstep_owner")
        cur.execute("delete from lockstep.claim where batch_id = %s", (batch,))
        cur.execute("update lockstep.attempt set state = 'abandoned', closed_at = now() where batch_id = %s", (batch,))
        cur.execute("update lockstep.batch set state = 'abandoned', closed_at = now() where batch_id = %s", (batch,))


@pytest.mark.parametrize("table", ["tombstone", "reject"])
def test_what_a_replay_takes_out_goes_with_its_commit_alone(conn, ledger, table):
    s = ledger.stream(0)
    b, _ = ledger.done({s: (0, 10)}, rejected=1)
    ledger.ask(TOMB.format(s=s))
    ledger.ask(
        f"insert into lockstep.reject (stream_id, \"offset\", batch_id, reason) values ({s}, 6, {b}, 'bad') returning 1"
    )
    r = ledger.planned({s: (0, 10)}, lane="replay")
    ledger.ask(f"update lockstep.claim set expects = 'batch', expects_batch = {b} where batch_id = {r} returning 1")
    t = ledger.opened(r)
    with pytest.raises(psycopg2.Error) as refused:
        take_out_and_give_up(conn, table, r)
    assert refused.value.diag.constraint_name == "read_again"
    with transaction(conn, "lockstep_committer") as cur:
        cur.execute(f"delete from lockstep.{table}")
        cur.execute("set local role lockstep_owner")
        cur.execute("delete from lockstep.coverage")
        commit_in(cur, r, t)
    assert ledger.ask(f"select from lockstep.{table}") == []


WITHOUT = {
    "after the position": (
        15,
        0,
        1,
        "stream 2 begins at offset 15: [10, 15) were not read, and no decision says so; next: ",
    ),
    "before the position": (
        4,
        0,
        1,
        "stream 2 begins at offset 4: [4, 10) are read twice, and no decision says so; next: ",
    ),
    "in a new partition": (
        9,
        7,
        0,
        "stream 2 begins at offset 9: [0, 9) of a new partition were not read, and no decision",
    ),
}


@pytest.mark.parametrize("what", WITHOUT.values(), ids=WITHOUT)
def test_verify_names_what_begins_without_the_guards(conn, ledger, read_log, what):
    start, partition, incarnation, words = what
    assert (read(conn, streams_check, "orders").ok, read(conn, streams_check, "orders").detail) == (
        True,
        "1 streams, 0 closed",
    )
    if partition == 0:
        ledger.retired(read_log)
    ledger.stream(partition, start, incarnation=incarnation, epoch=1)
    check = read(conn, streams_check, "orders")
    assert not check.ok
    assert f"orders.v1-{partition}: {words}" in check.detail
    if partition == 0:
        assert (
            "orders.v1-0: stream 1 ended at offset 10, and no decision says so; next: lockstep batches" in check.detail
        )
    said = retires(read_log, start, partition)
    with transaction(conn, "lockstep_owner") as cur:
        cur.execute(*said)
    assert read(conn, streams_check, "orders").ok


def test_verify_takes_growth_for_what_it_is(conn, ledger, read_log):
    ledger.retired(read_log)
    ledger.stream(0, 10, epoch=1)
    ledger.stream(1, 0, epoch=1)
    check = read(conn, streams_check, "orders")
    assert (check.ok, check.detail) == (True, "3 streams, 1 closed")


def deep(conn, log, pipeline=ORDERS, later=None):
    streams = read(conn, streams_ever, "orders")
    return read(conn, begin_check, SayingBroker(later or log), pipeline, log, streams)


def test_verify_deep_names_records_that_a_log_holds_below_its_first_stream(conn, ledger):
    ledger.stream(0, 20)
    check = deep(conn, view((5, 40)))
    assert (check.ok, check.detail) == (
        False,
        (
            "orders.v1-0: stream 1 begins at offset 20: [5, 20) can be read, and no decision leaves them out; next: "
            "lockstep fill orders --from 0:5 --until 0:20"
        ),
    )
    ledger.covered(1, 20, 21, "skipped")
    assert deep(conn, view((20, 40))).detail == "1 logs; of 0 a decision or the definition says where"
    assert deep(conn, view((5, 40)), later=view((20, 40))).ok, "the log has moved on since the first look"
    assert deep(conn, view((5, 40)), replace(ORDERS, start="latest")).ok
    ledger.stream(1, 20, epoch=1)
    late = deep(conn, view((5, 40), (0, 40)), replace(ORDERS, start="latest"))
    assert "orders.v1-1: stream 2 begins at offset 20: [0, 20) can be read" in late.detail, "a partition that is new"


def test_verify_deep_takes_a_decision_for_where_a_log_begins(conn, ledger):
    ledger.stream(0, 20)
    with transaction(conn, "lockstep_owner") as cur:
        cur.execute(*decides("topic", topics={"orders.v1": {"0": 20}}))
    assert deep(conn, view((5, 40))).detail == "1 logs; of 1 a decision or the definition says where"


def test_verify_deep_names_upkeep_that_has_passed_what_the_log_holds(conn, ledger, read_log):
    assert deep(conn, view((0, 40))).ok
    ledger.ask("update lockstep.stream set upkept_below = 8 returning 1")
    assert deep(conn, view((8, 40))).ok
    assert deep(conn, view((3, 40))).detail == (
        f"orders.v1-0: stream {read_log} may forget deletions below offset 8, and the log holds [3, 8); next: "
        "lockstep replay orders --from 0:3 --until 0:8"
    )
