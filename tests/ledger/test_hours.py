"""Tests that complete hours are recorded in order, once, with their proof.

Ledger rows are written by hand, and the broker knows times.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import COMMITTER, OWNER, transaction
from lockstep.core.planning.hours import HOUR, HOURS_PER_LOOK, Complete
from lockstep.ledger.views import hours as ledger_of_hours
from lockstep.steps.batch import hours as step
from lockstep.steps.batch.hours import keep_hours
from support.fakes.ledger_rows import SayingBroker, read, view
from support.scenes.decision_facts import ORDERS

NINE = (
    datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 100 * HOUR
)  # nine o'clock, for readers of the test
CUSHION = timedelta(minutes=2)
ENOUGH = [(0, 1_000), (0, 1_000)]


def at(hours: float) -> datetime:
    """Returns the time so many hours past nine."""
    return NINE + hours * HOUR


class Dated(SayingBroker):
    """A broker with dated records. `records` are by partition (hours past nine, offset), in the log's order.

    It looks times up in them.
    """

    def __init__(self, *views: Any, records: dict[int, list[tuple[float, int]]] | None = None) -> None:
        super().__init__(*views)
        self.records = records or {}  # type: ignore[assignment, method-assign]

    def first_at(self, view, moment: datetime) -> dict[int, tuple[int, datetime | None]]:
        found = {p: [(o, at(when)) for when, o in self.records.get(p, []) if at(when) >= moment] for p in view.bounds}  # type: ignore[attr-defined]
        return {p: next(iter(found[p]), (bounds.stable_end, None)) for p, bounds in view.bounds.items()}


@pytest.fixture
def orders(ledger):
    """Makes two streams, opened a little before nine, with the commits of each until ten and eleven."""
    streams = ledger.stream(0), ledger.stream(1)
    opened(ledger, at(-0.1))
    ledger.done({streams[0]: (0, 10), streams[1]: (0, 4)})
    ledger.done({streams[0]: (10, 25), streams[1]: (4, 5)})
    return streams


RECORDS = {0: [(0.2, 3), (1.01, 12), (2.01, 25)], 1: [(0.5, 0), (1.01, 4), (2.01, 5)]}


def opened(ledger, moment: datetime) -> None:
    ledger.ask("update lockstep.stream set opened_at = %(at)s returning 1", at=moment)


def dated(*bounds: tuple[int, int], **more: Any) -> Dated:
    return Dated(view(*(bounds or ENOUGH)), records=more.pop("records", RECORDS), **more)


def kept(conn, last: int | None = None) -> list[dict]:
    return read(conn, ledger_of_hours.hours, "orders", last)


def offsets(hour: dict) -> dict[int, tuple[int, int]]:
    return {part["partition"]: (part["from_offset"], part["until_offset"]) for part in hour["offsets"]}


@pytest.mark.usefixtures("orders")
def test_hours_are_kept_in_order_once_with_the_batches_that_prove_them(conn):
    broker = dated()

    found = keep_hours(conn, broker, ORDERS, at(2) + CUSHION)

    assert (found.hours, found.waiting) == ((at(1), at(2)), None)
    first, second = kept(conn)
    assert (first["from"], first["until"], first["batches"], first["losses"]) == (at(0), at(1), [1, 2], [])
    assert offsets(first) == {0: (3, 12), 1: (0, 4)}
    assert (offsets(second), second["batches"]) == ({0: (12, 25), 1: (4, 5)}, [2])
    assert read(conn, ledger_of_hours.complete_through, "orders") == at(2)

    asked = broker.asked
    assert keep_hours(conn, broker, ORDERS, at(2) + CUSHION).hours == ()
    assert broker.asked == asked, "nothing is over that was not kept: nobody is asked"


@pytest.mark.usefixtures("orders")
def test_a_time_is_resolved_once_and_for_all(conn, ledger):
    keep_hours(conn, dated(), ORDERS, at(1) + CUSHION)
    later = {0: [(0.2, 3), (1.01, 20), (2.01, 25)], 1: [(0.5, 0), (2.01, 5)]}

    keep_hours(conn, dated(records=later), ORDERS, at(2) + CUSHION)

    assert [offsets(hour)[0] for hour in kept(conn)] == [(3, 12), (12, 25)]
    assert ledger.ask("select count(*) from lockstep.boundary") == [(6,)]


@pytest.mark.usefixtures("orders")
def test_an_hour_is_not_over_before_all_clocks_are_past_it(conn):
    assert keep_hours(conn, dated(), ORDERS, at(1) + timedelta(seconds=59)).hours == ()
    assert keep_hours(conn, dated(), ORDERS, at(1) + timedelta(seconds=60)).hours == (at(1),)


def test_an_hour_waits_for_what_is_not_committed_and_says_what(conn, ledger, orders):
    more = {0: RECORDS[0], 1: [*RECORDS[1][:2], (1.6, 5), (2.01, 9)]}
    found = keep_hours(conn, dated(records=more), ORDERS, at(5) + CUSHION)
    assert found.hours == (at(1),)
    assert (found.waiting.until, found.waiting.next_command) == (at(2), "lockstep run orders")
    assert found.waiting.reason == "orders.v1-1 [5, 9) is not committed yet"

    ledger.done({orders[0]: (25, 1_000), orders[1]: (5, 1_000)})
    assert keep_hours(conn, dated(records=more), ORDERS, at(5) + CUSHION).hours == (at(2), at(3), at(4), at(5))


def test_a_skipped_stretch_is_not_complete_until_it_is_filled(conn, ledger, orders):
    ledger.covered(orders[1], 5, 9, "skipped")
    more = {0: RECORDS[0], 1: [*RECORDS[1][:2], (2.01, 9)]}

    waiting = keep_hours(conn, dated(records=more), ORDERS, at(2) + CUSHION).waiting

    assert waiting.reason == "orders.v1-1 [5, 9) was skipped"
    assert waiting.next_command == "lockstep fill orders --from 1:5 --until 1:9"


def test_a_loss_completes_an_hour_which_names_it(conn, ledger, orders):
    ledger.covered(orders[1], 5, 9, "loss")
    more = {0: RECORDS[0], 1: [*RECORDS[1][:2], (2.01, 9)]}

    keep_hours(conn, dated((0, 25), (0, 9), records=more), ORDERS, at(3) + CUSHION)

    loss = {"topic": "orders.v1", "partition": 1, "from_offset": 5, "until_offset": 9, "kind": "loss"}
    assert [hour["losses"] for hour in kept(conn)] == [[], [loss], [loss]], (
        "the hour behind it may have had records there"
    )


def test_an_idle_topic_completes_its_hours_and_no_more_than_so_many_at_once(conn, ledger):
    ledger.stream(0)
    opened(ledger, at(0))
    broker = dated((0, 0), records={})
    first = keep_hours(conn, broker, ORDERS, at(60) + CUSHION)
    assert first.hours == tuple(at(n) for n in range(1, HOURS_PER_LOOK + 1))
    assert len(keep_hours(conn, broker, ORDERS, at(60) + CUSHION).hours) == 60 - HOURS_PER_LOOK
    assert all((hour["batches"], hour["offsets"]) == ([], []) for hour in kept(conn))


@pytest.mark.usefixtures("orders")
def test_an_open_transaction_keeps_an_hour_from_being_over(conn):
    broker = dated((0, 25), (0, 5), records={0: RECORDS[0], 1: RECORDS[1][:2]})
    broker.highs = {1: 7}
    found = keep_hours(conn, broker, ORDERS, at(2) + CUSHION)
    assert found.hours == (at(1),)
    assert found.waiting.reason == "orders.v1-1: an open transaction from 5 on may hold records of it"

    broker.highs = {}
    assert keep_hours(conn, broker, ORDERS, at(2) + CUSHION).hours == (at(2),)


def test_a_record_from_the_future_holds_no_hour_back_and_its_boundary_is_nobodys(conn, ledger, orders):
    ahead = {0: [(0.2, 3), (9_000, 5), (1.01, 12), (1.02, 25)], 1: RECORDS[1]}

    keep_hours(conn, dated((0, 25), (0, 5), records=ahead), ORDERS, at(1) + CUSHION)

    (first,) = kept(conn)
    assert offsets(first)[0] == (3, 25), "all that was there when it was over"
    assert ledger.ask(
        "select count(*) from lockstep.boundary where stream_id = %(s)s and at = %(t)s", s=orders[0], t=at(1)
    ) == [(0,)], "a window that begins here may begin early, and never late"

    once = {0: [(0.2, 3), (2.01, 5), (2.02, 40)], 1: RECORDS[1]}
    ledger.done({orders[0]: (25, 40)})
    keep_hours(conn, dated((0, 40), (0, 5), records=once), ORDERS, at(2) + CUSHION)
    assert offsets(kept(conn)[-1])[0] == (25, 40), "below what the hours have reached nothing begins"


@pytest.mark.parametrize(
    "bounds",
    [view(*ENOUGH, topic_id="another"), view(*ENOUGH, (0, 1)), view((0, 1_000)), view((0, 24), (0, 1_000))],
    ids=["recreated", "grown", "shrunk", "truncated"],
)
def test_hours_wait_while_the_log_is_not_the_one_that_was_read(conn, orders, bounds):
    assert orders
    found = keep_hours(conn, Dated(bounds, records=RECORDS), ORDERS, at(2) + CUSHION)
    assert (found.hours, found.waiting.next_command) == ((), "lockstep plan orders")


def test_hours_go_on_over_a_growth_in_the_streams_of_both_sides(conn, ledger, orders):
    keep_hours(conn, dated(), ORDERS, at(1) + CUSHION)
    for stream in orders:
        ledger.retired(stream)
    newer = ledger.stream(0, start=25, epoch=1), ledger.stream(1, start=5, epoch=1), ledger.stream(2, epoch=1)
    ledger.done({newer[0]: (25, 40), newer[2]: (0, 3)})
    grown = {0: [(1.1, 12), (3.5, 40)], 1: [(1.5, 4)], 2: [(0.1, 0), (3.5, 3)]}

    keep_hours(conn, Dated(view((0, 40), (0, 5), (0, 3)), records=grown), ORDERS, at(2) + CUSHION)

    parts = [(p["stream_id"], p["from_offset"], p["until_offset"]) for p in kept(conn)[-1]["offsets"]]
    assert sorted(parts) == [(orders[0], 12, 25), (orders[1], 4, 5), (newer[0], 25, 40), (newer[2], 0, 3)]


def test_what_is_left_of_a_log_that_was_retired_belongs_to_the_next_hour(conn, ledger, orders):
    keep_hours(conn, dated(), ORDERS, at(1) + CUSHION)
    for stream in orders:
        ledger.retired(stream)
    newer = ledger.stream(0, start=3, incarnation=1, epoch=1)
    ledger.done({newer: (3, 8)})
    again = Dated(view((3, 8)), records={0: [(1.9, 3), (2.5, 5)]})

    found = keep_hours(conn, again, ORDERS, at(3) + CUSHION)

    assert found.hours == (at(2), at(3))
    parts = [sorted((p["stream_id"], p["from_offset"], p["until_offset"]) for p in h["offsets"]) for h in kept(conn)]
    assert parts[1:] == [[(orders[0], 12, 25), (orders[1], 4, 5), (newer, 3, 5)], [(newer, 5, 8)]]


@pytest.mark.usefixtures("orders")
def test_hours_begin_with_the_pipeline_or_at_the_time_that_is_named_as_its_start(conn, ledger):
    named = replace(ORDERS, start=at(-5).isoformat())
    assert keep_hours(conn, dated(), named, at(1) + CUSHION).hours == (at(1),), "its streams were not opened there"
    ledger.ask("delete from lockstep.hour_offsets returning 1")
    ledger.ask("delete from lockstep.complete_hour returning 1")
    ledger.ask("insert into lockstep.boundary select stream_id, %(t)s, 0 from lockstep.stream returning 1", t=at(-5))
    assert keep_hours(conn, dated(), named, at(1) + CUSHION).hours[0] == at(-4)


def test_a_hole_is_refused_by_the_code_with_the_constraint_out_of_play_and_the_other_way_round(
    conn, ledger, orders, monkeypatch
):
    ledger.covered(orders[1], 5, 9, "skipped")
    more = {0: RECORDS[0], 1: [*RECORDS[1][:2], (2.01, 9)]}
    keep_hours(conn, dated(records=more), ORDERS, at(1) + CUSHION)

    def blind(_name, until, _streams, offsets, _covered, *, named) -> Complete:
        assert not named
        return Complete(until, offsets, (), ())

    with monkeypatch.context() as patch:
        patch.setattr(step, "judge_hour", blind)
        with pytest.raises(errors.CheckViolation, match="hour_is_covered"):
            keep_hours(conn, dated(records=more), ORDERS, at(2) + CUSHION)
    with transaction(conn, OWNER) as cur:
        cur.execute("drop trigger hour_is_covered on lockstep.hour_offsets")
    assert keep_hours(conn, dated(records=more), ORDERS, at(2) + CUSHION).hours == ()


def test_two_at_once_keep_an_hour_once(conn, orders, behind):
    hold = "select 1 from lockstep.pipeline for no key update"
    with behind(hold) as (cur, meanwhile):
        waiting = meanwhile(lambda: keep_hours(conn, dated(), ORDERS, at(1) + CUSHION).hours)
        cur.execute("set local role lockstep_owner")
        cur.execute("insert into lockstep.complete_hour values ('orders', %s, '{}')", (at(1),))
        cur.execute(
            "insert into lockstep.hour_offsets values ('orders', %s, %s, 3, 12), ('orders', %s, %s, 0, 4)",
            (at(1), orders[0], at(1), orders[1]),
        )
    assert waiting() == "()"
    assert len(kept(conn)) == 1


@pytest.mark.usefixtures("orders")
def test_an_hour_is_told_by_whoever_told_it_before_and_by_nobody_else(conn):
    keep_hours(conn, dated(), ORDERS, at(2) + CUSHION)

    def to_tell(whom: str) -> list[datetime]:
        return read(conn, ledger_of_hours.to_tell, "orders", whom)

    assert to_tell("run 1") == [at(1), at(2)]
    for _ in range(2):
        with transaction(conn, COMMITTER) as cur:
            assert ledger_of_hours.tell(cur, "orders", at(1), "run 1") == 1
    assert (to_tell("run 1"), to_tell("run 2")) == ([at(1), at(2)], [at(2)])
    assert read(conn, ledger_of_hours.hour, "orders", at(2))["batches"] == [2]
    assert read(conn, ledger_of_hours.hour, "orders", at(9)) is None


def test_an_hour_that_is_over_for_the_caller_alone_is_not_over_and_its_end_is_not_looked_up(conn, ledger):
    this_hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    ledger.stream(0)
    opened(ledger, this_hour - 2.1 * HOUR)
    try:
        found = keep_hours(conn, dated((0, 0), records={}), ORDERS, this_hour + 3 * HOUR)
    except errors.CheckViolation as violation:
        pytest.fail(str(violation))

    assert (found.hours[0], found.waiting) == (this_hour - HOUR, None)
    assert ledger.ask("select max(at) <= clock_timestamp() from lockstep.boundary") == [(True,)]
