"""Tests a pipeline that begins where another reader stands: recorded once, as shown, and held by the database."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import PLANNER, transaction
from lockstep.core.changes.readers import AT_OFFSETS, Reader, Standing
from lockstep.core.errors import Refusal
from lockstep.core.offsets import TopicPartition
from lockstep.steps.changes.adopt import Source, adopt, preview_adoption
from support.fakes.ledger_rows import SayingBroker, view
from support.scenes.decision_facts import ME, ORDERS, decided

SEEN = view((0, 100), (40, 60))
LOADER = Reader("group", "loader", "--group loader", "the consumer group loader", "loader")
STREAMS = "select partition, start_offset, position from lockstep.stream order by partition"
DECISION = "insert into lockstep.decision (pipeline, kind, who, why, detail) values ('orders', 'adopt', 'me', 'x', %s)"
STREAM = """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset,
    position) values ('orders', 'c', 'orders.v1', 't', %s, 0, 0, %s, %s)"""
TOLD = {
    "digest": "0123456789abcdef",
    "reader": {"kind": "offsets"},
    "from": [{"topic": "orders.v1", "partition": 0, "offset": 7}],
}


def at(offsets):
    """Returns offsets by partition as those of the topic."""
    return {TopicPartition("orders.v1", partition): offset for partition, offset in offsets.items()}


def moving(*offsets: Any) -> Source:
    """Returns a source that stands at these offsets, one after another, and then at the last ones."""
    left = list(offsets)
    return Source(lambda _: Standing(LOADER, at(left.pop(0) if len(left) > 1 else left[0])), {}, 0)


def given(offsets):
    return Source(lambda _: AT_OFFSETS, at(offsets), 0)


def shown(conn, source, seen=SEEN, pipeline=ORDERS):
    return preview_adoption(conn, SayingBroker(seen), pipeline, source)


def applied(conn, source, digest, accepted=(), seen=SEEN):
    return adopt(conn, SayingBroker(seen), ORDERS, source, digest, accepted, ME)


def test_what_was_shown_is_applied_once_and_recorded_with_its_reader(conn, ledger):
    digest = shown(conn, moving({0: 7, 1: 60})).digest
    assert ledger.ask("select count(*) from lockstep.pipeline") == [(0,)], "a preview writes nothing"

    first, again = (applied(conn, moving({0: 7, 1: 60}), digest) for _ in range(2))

    assert (first.changed, again.changed, again.who, again.decision) == (True, False, "me@here", first.decision)
    assert ledger.ask(STREAMS) == [(0, 7, 7), (1, 60, 60)]
    assert decided(ledger) == [("adopt", "me@here", "because")]
    ((detail,),) = ledger.ask("select detail from lockstep.decision")
    assert detail == {
        "digest": digest,
        "reader": {"kind": "group", "name": "loader", "group": "loader", "batch": None},
        "from": [{"topic": "orders.v1", "partition": p, "offset": o} for p, o in ((0, 7), (1, 60))],
    }


def test_a_reader_that_moves_between_two_looks_is_refused_by_partition(conn):
    with pytest.raises(
        Refusal, match=r"orders.v1-1: the consumer group loader still moves, from 50 to 51 in 0 s"
    ) as refused:
        shown(conn, moving({0: 7, 1: 50}, {0: 7, 1: 51}))
    assert refused.value.next_command == "lockstep adopt orders --group loader"
    with pytest.raises(Refusal, match=r"orders.v1-1: the consumer group loader still moves, from None to 50"):
        shown(conn, moving({0: 7}, {0: 7, 1: 50}))


def test_a_digest_of_other_offsets_begins_nothing(conn, ledger):
    digest = shown(conn, moving({0: 7, 1: 60})).digest
    for source, seen in (
        (moving({0: 8, 1: 60}), SEEN),
        (moving({0: 7, 1: 60}), view((0, 100), (40, 60), topic_id="anew")),
    ):
        with pytest.raises(
            Refusal, match=f"orders: {digest} is not what is shown now, which is [0-9a-f]{{64}}: "
        ) as refused:
            applied(conn, source, digest, seen=seen)
        assert refused.value.next_command == "lockstep adopt orders --group loader"
    assert ledger.ask(STREAMS) == []
    applied(conn, moving({0: 7, 1: 60}), digest, seen=view((0, 900), (59, 700)))


def test_deleted_offsets_are_covered_as_lost_with_a_decision_of_their_own(conn, ledger):
    digest = shown(conn, given({0: 7, 1: 30})).digest
    with pytest.raises(
        Refusal, match=r"orders.v1-1 \[30, 40\) was deleted from the log and not read before: it is lost"
    ):
        applied(conn, given({0: 7, 1: 30}), digest)
    assert ledger.ask(STREAMS) == []

    applied(conn, given({0: 7, 1: 30}), digest, accepted=at({1: 0}))

    assert ledger.ask(STREAMS) == [(0, 7, 7), (1, 30, 40)]
    ((stream,),) = ledger.ask("select stream_id from lockstep.stream where partition = 1")
    assert ledger.ask("select stream_id, lower(offsets), upper(offsets), kind from lockstep.coverage") == [
        (stream, 30, 40, "loss")
    ]
    assert [kind for kind, _, _ in decided(ledger)] == ["adopt", "accept-loss"]
    ((detail,),) = ledger.ask("select detail from lockstep.decision where kind = 'accept-loss'")
    lost = {"stream_id": stream, "topic": "orders.v1", "partition": 1, "from_offset": 30, "until_offset": 40}
    assert detail == lost | {"abandoned": []}


def test_a_pipeline_that_has_planned_does_not_begin_again(conn, ledger):
    digest = shown(conn, given({0: 7, 1: 50})).digest
    ledger.retired(ledger.stream(0))
    for act in (lambda: shown(conn, given({0: 7, 1: 50})), lambda: applied(conn, given({0: 7, 1: 50}), digest)):
        with pytest.raises(Refusal, match="orders: it has planned already, and stands at 0:0: only a pipeline without"):
            act()
    assert decided(ledger) == []


def test_a_plan_that_comes_between_look_and_decision_wins(conn, ledger):
    source = given({0: 7, 1: 50})
    digest = shown(conn, source).digest

    class Planning(SayingBroker):
        def view(self, topic):
            if self.asked:
                ledger.stream(0)
            return super().view(topic)

    with pytest.raises(Refusal, match="orders: it has planned already"):
        adopt(conn, Planning(SEEN), ORDERS, source, digest, (), ME)
    assert ledger.ask(STREAMS) == [(0, 0, 0)]


def test_another_pipelines_digest_is_another(conn):
    clicks = replace(ORDERS, name="clicks")
    assert shown(conn, given({0: 7, 1: 50})).digest != shown(conn, given({0: 7, 1: 50}), pipeline=clicks).digest


def tell(conn, detail, *streams: Any, before: Any = ()) -> None:
    """Records a decision, by raw SQL as the planner, and these streams before and after it."""
    with transaction(conn, PLANNER) as cur:
        cur.execute("insert into lockstep.pipeline (name) values ('orders') on conflict do nothing")
        for partition, start in before:
            cur.execute(STREAM, (partition, start, start))
        cur.execute(DECISION, (json.dumps(detail),))
        for partition, start in streams:
            cur.execute(STREAM, (partition, start, start))


@pytest.mark.parametrize(
    "detail",
    [
        {},
        TOLD | {"digest": "0123456789abcdeX"},
        TOLD | {"reader": "loader"},
        TOLD | {"reader": {"kind": None}},
        TOLD | {"from": []},
        TOLD | {"from": [{"topic": "orders.v1", "partition": 0, "offset": "7"}]},
        TOLD | {"from": [*TOLD["from"], {"partition": 1, "offset": 7}]},
    ],
    ids=["nothing", "digest", "no object", "no kind", "nowhere", "a text", "no topic"],
)
def test_the_database_refuses_a_decision_that_does_not_say_all(conn, detail):
    with pytest.raises(errors.CheckViolation, match="adopt_is_told"):
        tell(conn, detail, (0, 7))


def test_the_database_begins_no_pipeline_twice(conn):
    with pytest.raises(errors.CheckViolation, match="adopted_first: orders has planned already"):
        tell(conn, TOLD, before=[(0, 7)])
    tell(conn, TOLD, (0, 7))
    with pytest.raises(errors.CheckViolation, match="adopted_first: orders has planned already"):
        tell(conn, TOLD)


@pytest.mark.parametrize(
    ("streams", "partition"),
    [([], 0), ([(0, 8)], 0), ([(0, 7), (1, 0)], 1)],
    ids=["none", "elsewhere", "one more"],
)
def test_the_database_begins_where_the_decision_says_and_nowhere_else(conn, ledger, streams, partition):
    with pytest.raises(
        errors.CheckViolation, match=f"adopted_as_decided: partition {partition} of orders does not begin"
    ):
        tell(conn, TOLD, *streams)
    assert ledger.ask(STREAMS) == decided(ledger) == []
