"""Tests skipping, with hand-written ledger rows and a broker with prepared answers."""

from __future__ import annotations

import pytest

from lockstep.core.errors import Refusal
from lockstep.core.planning.bounds import AtOffsets
from lockstep.steps.changes.skip import skip
from support.fakes.ledger_rows import NOON, SayingBroker, view
from support.scenes.decision_facts import ME, ORDERS, batch_state, claims, decided, position


def test_a_skip_covers_what_it_passes_and_leaves_a_row(conn, ledger):
    first, second = ledger.stream(0), ledger.stream(1)
    ledger.done({first: (0, 10)})

    done = skip(conn, SayingBroker(view((0, 25), (0, 5))), ORDERS, None, ME, NOON)

    assert [(r.offsets.from_offset, r.offsets.until_offset) for r in done.ranges] == [(10, 25), (0, 5)]
    assert (position(ledger, first), position(ledger, second)) == (25, 5)
    assert ledger.ask(
        "select stream_id, lower(offsets), upper(offsets) from lockstep.coverage where kind = 'skipped'"
    ) == [
        (first, 10, 25),
        (second, 0, 5),
    ]
    assert decided(ledger) == [("skip", "me@here", "because")] * 2


def test_a_skip_abandons_the_batches_that_work_there_and_no_others(conn, ledger):
    here, there = ledger.stream(0), ledger.stream(1)
    inside = ledger.planned({here: (0, 10)})
    elsewhere = ledger.planned({there: (0, 10)}, lane="fill")

    done = skip(conn, SayingBroker(view((0, 25), (0, 25))), ORDERS, AtOffsets({0: 20}), ME, NOON)

    assert done.abandoned == (inside,)
    assert [batch_state(ledger, batch) for batch in (inside, elsewhere)] == ["abandoned", "planned"]
    assert claims(ledger) == [(elsewhere,)]


LOST = r"offsets \[10, 12\) cannot be read any more: they are lost, not skipped"
REFUSED = {
    "back": (AtOffsets({0: 4}), view((0, 25)), "skip only goes forward"),
    "past the stable end": (AtOffsets({0: 26}), view((0, 25)), "lies past the stable end 25"),
    "over what is lost": (None, view((12, 25)), LOST),
    "on another log": (None, view((0, 25), topic_id="another"), "the log is not the same any more"),
}


@pytest.mark.parametrize(("to", "bounds", "message"), REFUSED.values(), ids=REFUSED)
def test_a_skip_that_cannot_be_is_refused_and_changes_nothing(conn, ledger, to, bounds, message):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})
    with pytest.raises(Refusal, match=message):
        skip(conn, SayingBroker(bounds), ORDERS, to, ME, NOON)
    assert (position(ledger, stream), decided(ledger)) == (10, [])


def test_a_skip_backward_names_the_command_for_what_lies_there(conn, ledger):
    ledger.done({ledger.stream(0): (0, 10)})
    broker = SayingBroker(view((0, 25)))
    skip(conn, broker, ORDERS, AtOffsets({0: 20}), ME, NOON)
    for offset, command in ((4, "replay"), (9, "replay"), (10, "fill"), (15, "fill")):
        with pytest.raises(Refusal, match="the position is 20, and skip only goes forward") as no:
            skip(conn, broker, ORDERS, AtOffsets({0: offset}), ME, NOON)
        assert no.value.next_command == f"lockstep {command} {ORDERS.name} --from 0:{offset}"


def test_a_skip_to_where_the_position_is_changes_nothing(conn, ledger):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})
    done = skip(conn, SayingBroker(view((0, 10))), ORDERS, None, ME, NOON)
    assert (done.ranges, done.abandoned, decided(ledger)) == ((), (), [])
