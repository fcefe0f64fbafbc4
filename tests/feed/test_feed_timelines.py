"""Tests that a reader of a feed is refused once the ledger was restored, and that only `restored` begins a timeline (R1)."""

from __future__ import annotations

import uuid

import psycopg2
import pytest

from feed.conftest import ORDERS
from lockstep.adapters.postgres import OWNER, PLANNER, READER, transaction
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.feed.feeds import feed_clash
from lockstep.ledger.feed.make import make_feeds
from lockstep.ledger.feed.reading import read_changes

TIMELINE = "select timeline::text from lockstep.feed"
DECIDED = "insert into lockstep.decision (pipeline, kind, who, why) values ('orders', 'restored', 'me', 'a test')"
OTHER = "update lockstep.feed set timeline = gen_random_uuid()"


def restore(ledger) -> None:
    """Says that the ledger was restored, as the command does."""
    with transaction(ledger.conn, PLANNER) as cur:
        cur.execute(DECIDED)
        cur.execute("select lockstep.pass_over(0, 0, 0)")


def read(ledger, number: int, timeline: str | None) -> list[tuple]:
    with transaction(ledger.conn, READER) as cur:
        cur.execute(
            "select number, id, n, timeline::text from lockstep_feed.public_orders_from(%s, 10, %s::uuid)",
            (number, timeline),
        )
        return [tuple(row) for row in cur.fetchall()]


def test_a_reader_of_a_lost_timeline_is_refused_though_the_numbers_have_passed_its_own(ledger, orders):
    assert orders
    ((kept,),) = ledger.ask(TIMELINE)
    assert read(ledger, 0, kept) == [(0, "a", 1, kept)]

    restore(ledger)

    ((drawn,),) = ledger.ask(TIMELINE)
    assert drawn != kept
    assert read(ledger, 0, drawn) == [(0, "a", 1, drawn)]
    for number in (0, 1, 9):
        with pytest.raises(psycopg2.errors.InvalidParameterValue, match=rf"feed_restored: .* {drawn}, and .* {kept}"):
            read(ledger, number, kept)
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match=r"feed_restored: .* those of none"):
        read(ledger, 0, None)


def test_the_command_refuses_a_lost_timeline_with_the_snapshot_to_begin_with(ledger, orders):
    assert orders
    ((kept,),) = ledger.ask(TIMELINE)
    with transaction(ledger.conn, READER) as cur:
        assert read_changes(cur, "orders", "public.orders", 1, 5, kept)["timeline"] == kept
    restore(ledger)
    with (
        pytest.raises(Refusal, match=f"those of {kept} are asked for: the ledger was restored") as refused,
        transaction(ledger.conn, READER) as cur,
    ):
        read_changes(cur, "orders", "public.orders", 1, 5, kept)
    assert refused.value.next_command == "lockstep changes orders --target public.orders --snapshot"


def test_every_feed_begins_a_timeline_whichever_pipeline_is_named(ledger, orders):
    assert orders
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("insert into lockstep.feed (target, name, key, keep, began_empty) values ('public.b', 'public_b', '{id}', '1 day', true)")  # fmt: skip  # noqa: E501
    before = ledger.ask(f"{TIMELINE} order by 1")
    restore(ledger)
    after = ledger.ask(f"{TIMELINE} order by 1")
    assert (len(before), len({*before, *after})) == (2, 4)


def test_no_timeline_begins_without_the_decision_of_its_transaction(ledger, orders):
    assert orders
    for earlier in (False, True):
        if earlier:
            with transaction(ledger.conn, OWNER) as cur:
                cur.execute(DECIDED)
        with pytest.raises(psycopg2.Error, match="timeline_by_decision"), transaction(ledger.conn, OWNER) as cur:
            cur.execute(OTHER)


def test_two_feeds_have_no_timeline_in_common(ledger, orders):
    assert orders
    with pytest.raises(psycopg2.errors.UniqueViolation, match="timeline_once"), transaction(ledger.conn, OWNER) as cur:
        cur.execute("insert into lockstep.feed (target, name, key, keep, began_empty, timeline) select 'public.b', 'public_b', key, keep, true, timeline from lockstep.feed")  # fmt: skip  # noqa: E501


def test_whoever_may_read_without_a_timeline_may_read_with_it_when_migrate_has_run(ledger, orders):
    assert orders
    without, given = (f"lockstep_feed.public_orders_from(bigint, int{more})" for more in ("", ", uuid"))
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(f"drop function {given}; grant execute on function {without} to lockstep_stager")  # as of before
        make_feeds(cur, ORDERS)
    roles = "unnest(array['lockstep_stager', 'lockstep_reader', 'lockstep_partition'])"
    may = f"select has_function_privilege(r, %s, 'execute') from {roles} r"
    with transaction(ledger.conn, READER) as cur:
        cur.execute(may, (given,))
        assert [yes for (yes,) in cur.fetchall()] == [True, True, False]


def test_a_column_named_timeline_gets_an_underscore_for_the_reader_that_has_one_itself(ledger, orders):
    assert orders
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("alter table public.orders add column timeline text")
        make_feeds(cur, ORDERS)
        cur.execute("select lockstep.manual_change('public.orders', 'a test')")
        cur.execute("update public.orders set timeline = 'mine'")
    ((kept,),) = ledger.ask(TIMELINE)
    with transaction(ledger.conn, READER) as cur:
        cur.execute("select timeline::text, timeline_ from lockstep_feed.public_orders_from(1, 9, %s::uuid)", (kept,))
        assert [tuple(row) for row in cur.fetchall()] == [(kept, None), (kept, "mine")]
        cur.execute("select timeline from lockstep_feed.public_orders_from(1, 9)")
        assert [row[0] for row in cur.fetchall()] == [None, "mine"]
    assert feed_clash(["timeline", "timeline_"])
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("alter table public.orders add column timeline_ text")
    with pytest.raises(BadDefinition, match="timeline and timeline_"), transaction(ledger.conn, OWNER) as cur:
        make_feeds(cur, ORDERS)


def test_a_timeline_that_no_ledger_has_drawn_is_refused_too(ledger, orders):
    assert orders
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="feed_restored"):
        read(ledger, 0, str(uuid.uuid4()))
