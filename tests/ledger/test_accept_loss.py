"""Tests accepting a loss, with hand-written ledger rows and a broker with prepared answers."""

from __future__ import annotations

import pytest

from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange, TopicPartition
from lockstep.steps.changes import decisions
from support.fakes.ledger_rows import SayingBroker, commit_in, view
from support.scenes.decision_facts import ME, ORDERS, batch_state, claims, decided, position


def lost(begin, end, partition=0):
    return OffsetRange(TopicPartition("orders.v1", partition), begin, end)


def test_a_loss_is_covered_and_the_position_lies_behind_it(conn, ledger):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})

    loss = decisions.accept_loss(conn, SayingBroker(view((25, 90))), ORDERS, lost(10, 25), ME)

    assert (loss.position, loss.abandoned, loss.changed) == (25, (), True)
    assert position(ledger, stream) == 25
    assert ledger.ask("select kind, lower(offsets), upper(offsets) from lockstep.coverage order by 2") == [
        ("batch", 0, 10),
        ("loss", 10, 25),
    ]
    assert decided(ledger) == [("accept-loss", "me@here", "because")]
    ((kind, detail),) = ledger.ask("select kind, detail from lockstep.decision")
    assert (kind, detail["partition"], detail["from_offset"], detail["until_offset"]) == ("accept-loss", 0, 10, 25)


def test_part_of_what_was_deleted_may_be_accepted(conn, ledger):
    stream = ledger.stream(0)
    decisions.accept_loss(conn, SayingBroker(view((25, 90))), ORDERS, lost(0, 12), ME)
    assert position(ledger, stream) == 12


def test_unfinished_batches_of_every_lane_that_touch_the_loss_are_abandoned_and_no_others(conn, ledger):
    here, there = ledger.stream(0), ledger.stream(1)
    live = ledger.planned({here: (0, 20), there: (0, 20)})
    filling = ledger.planned({here: (20, 30)}, lane="fill")
    elsewhere = ledger.planned({there: (20, 30)}, lane="fill")
    behind = ledger.planned({here: (30, 40)}, lane="fill")

    loss = decisions.accept_loss(conn, SayingBroker(view((25, 90), (0, 90))), ORDERS, lost(0, 25), ME)

    assert loss.abandoned == (live, filling)
    assert {b: batch_state(ledger, b) for b in (live, filling, elsewhere, behind)} == {
        live: "abandoned",
        filling: "abandoned",
        elsewhere: "planned",
        behind: "planned",
    }
    assert {batch for (batch,) in claims(ledger)} == {elsewhere, behind}


def test_the_same_loss_again_changes_nothing(conn, ledger):
    ledger.stream(0)
    broker = SayingBroker(view((25, 90)))
    decisions.accept_loss(conn, broker, ORDERS, lost(0, 25), ME)
    again = decisions.accept_loss(conn, broker, ORDERS, lost(0, 25), ME)
    assert (again.changed, len(decided(ledger))) == (False, 1)


@pytest.mark.parametrize(
    ("offsets", "bounds", "message", "next_command"),
    [
        (
            lost(10, 30, 0),
            (25, 90),
            "the log starts at 25, and what it holds can still be read",
            "--from 10 --until 25",
        ),
        (
            lost(12, 25, 0),
            (25, 90),
            "the position is 10, and what lies between would stay open",
            "--from 10 --until 25",
        ),
        (lost(5, 25, 0), (25, 90), "the position is 10, and what lies below it is covered", "--from 10 --until 25"),
        (lost(10, 15, 0), (0, 90), "the log starts at 0", "lockstep run orders"),
        (lost(10, 15, 4), (25, 90), "partition 4 has no open stream; there are: 0", "lockstep status orders"),
    ],
)
def test_what_is_not_lost_is_refused_and_changes_nothing(conn, ledger, offsets, bounds, message, next_command):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})
    batch = ledger.planned({stream: (10, 90)})

    with pytest.raises(Refusal, match=message) as refused:
        decisions.accept_loss(conn, SayingBroker(view(bounds)), ORDERS, offsets, ME)

    assert next_command in refused.value.next_command
    assert (position(ledger, stream), batch_state(ledger, batch), decided(ledger)) == (10, "planned", [])


def test_what_was_skipped_and_then_deleted_is_lost_and_the_rest_of_it_stays_skipped(conn, ledger):
    stream = ledger.stream(0)
    ledger.covered(stream, 0, 40, "skipped")

    loss = decisions.accept_loss(conn, SayingBroker(view((25, 90))), ORDERS, lost(10, 25, 0), ME)

    assert (loss.position, loss.changed) == (40, True)
    assert coverage(ledger) == [("[0,10)", "skipped"), ("[10,25)", "loss"), ("[25,40)", "skipped")]
    assert position(ledger, stream) == 40


def test_a_loss_may_begin_in_what_was_skipped_and_end_behind_the_position(conn, ledger):
    stream = ledger.stream(0)
    ledger.covered(stream, 0, 10, "skipped")

    loss = decisions.accept_loss(conn, SayingBroker(view((25, 90))), ORDERS, lost(5, 25, 0), ME)

    assert loss.position == 25
    assert coverage(ledger) == [("[0,5)", "skipped"), ("[5,25)", "loss")]
    assert position(ledger, stream) == 25


def coverage(ledger):
    return ledger.ask("select offsets::text, kind from lockstep.coverage order by offsets")


def test_a_loss_in_a_partition_that_is_gone_is_a_matter_for_retire(conn, ledger):
    ledger.stream(0)
    ledger.stream(1)
    with pytest.raises(Refusal, match="the partition is gone; its position is 0") as refused:
        decisions.accept_loss(conn, SayingBroker(view((25, 90))), ORDERS, lost(0, 25, 1), ME)
    assert refused.value.next_command == "lockstep retire orders --partition 1 --reason ..."


def test_a_loss_on_a_recreated_topic_is_a_matter_for_retire(conn, ledger):
    ledger.stream(0)
    with pytest.raises(Refusal, match=r"the log is not the same any more \(topic id topic-1, now another\)") as refused:
        decisions.accept_loss(conn, SayingBroker(view((25, 90), topic_id="another")), ORDERS, lost(0, 25), ME)
    assert refused.value.next_command == "lockstep retire orders --reason ..."


def test_a_loss_that_waited_for_a_commit_sees_its_position(conn, ledger, behind):
    stream = ledger.stream(0)
    batch = ledger.planned({stream: (0, 10)})
    token = ledger.opened(batch)
    broker = SayingBroker(view((5, 90)))

    with behind("select 1 from lockstep.batch for no key update") as (cur, meanwhile):
        answer = meanwhile(lambda: decisions.accept_loss(conn, broker, ORDERS, lost(0, 5), ME))
        commit_in(cur, batch, token)

    assert "the position is 10" in answer()
    assert (position(ledger, stream), batch_state(ledger, batch), decided(ledger)) == (10, "committed", [])
