"""Tests that a decision that waited looks again: at the batch that committed meanwhile, and at its position."""

from __future__ import annotations

import pytest

from lockstep.adapters.postgres import PLANNER, transaction
from lockstep.core.errors import PositionMoved
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.ledger.changes import decisions
from lockstep.steps.changes.skip import skip
from support.fakes.ledger_rows import NOON, SayingBroker, commit_in, view
from support.scenes.decision_facts import ME, ORDERS, batch_state, position


def test_a_batch_that_committed_while_a_skip_waited_for_it_is_not_told_as_abandoned(conn, ledger, behind):
    stream = ledger.stream(0)
    batch = ledger.planned({stream: (0, 10)})
    token = ledger.opened(batch)
    done = []

    with behind("select 1 from lockstep.batch for no key update") as (cur, meanwhile):
        answer = meanwhile(lambda: done.append(skip(conn, SayingBroker(view((0, 25))), ORDERS, None, ME, NOON)))
        commit_in(cur, batch, token)

    assert answer() == "None"
    assert [skipped.abandoned for skipped in done] == [()]
    assert [(r.offsets.from_offset, r.offsets.until_offset) for r in done[0].ranges] == [(10, 25)]
    assert ledger.ask("select detail -> 'abandoned' from lockstep.decision") == [([],)]
    assert (position(ledger, stream), batch_state(ledger, batch)) == (25, "committed")


def test_a_stream_that_growth_closed_while_a_skip_waited_keeps_its_position(conn, ledger, behind):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})

    with behind("select 1 from lockstep.pipeline for no key update") as (cur, meanwhile):
        answer = meanwhile(lambda: skip(conn, SayingBroker(view((0, 25))), ORDERS, None, ME, NOON))
        cur.execute("update lockstep.stream set retired_at = now()")

    assert "the position does not stand at 10 any more" in answer()
    assert position(ledger, stream) == 10
    assert ledger.ask("select 1 from lockstep.coverage where kind = 'skipped'") == []


@pytest.mark.parametrize("begin", [8, 12])
def test_a_position_that_stands_elsewhere_is_not_moved(conn, ledger, begin):
    stream = ledger.stream(0)
    ledger.covered(stream, 0, 10, "skipped")
    ledger.ask(
        "alter table lockstep.coverage drop constraint no_offset_twice; select 1"
    )  # it refuses the first of them
    item = StreamRange(stream, OffsetRange(TopicPartition("orders.v1", 0), begin, 20))

    moved = pytest.raises(PositionMoved, match=f"the position does not stand at {begin} any more")
    with moved, transaction(conn, PLANNER) as cur:
        decisions.insert_skip(cur, item)

    assert position(ledger, stream) == 10
