"""Tests which images of a feed an erasure makes blank, by their values, and which ones wait for a relay."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from feed.erasing import STREAM, erasing
from feed.sending import read_topic
from lockstep.adapters.postgres import OWNER, transaction
from lockstep.adapters.processes import this_owner
from lockstep.core.changes.person import Person
from lockstep.steps.feed.relay import restart
from support.scenes.erasing import KEY, holding
from support.scenes.odd_logs import recreate

N = 4711
WAITS = "{} changes in the feed of public.orders, until they are sent: lockstep relay orders, then the same erase again"
SHARES = "update lockstep.target_owner set shared_with = '{more}'"
OWNS = """insert into lockstep.pipeline (name) values ('more');
    insert into lockstep.target_owner (store, target, pipeline, shared_with) values ('', 'public.orders', 'more', '{orders}')"""
OF_MORE = "insert into public.orders (id, n, _stream, _offset, _ordinal, _batch) values (%s, 5, 2, 0, 0, 0)"


@pytest.fixture
def here(database, kafka, topic):
    """Returns a table whose feed goes nowhere."""
    return erasing(database, kafka, topic(partitions=1))


@pytest.fixture(params=["row", "change"])
def sent(request, database, kafka, topic):
    """Returns a table whose feed goes to a topic, in each shape."""
    return erasing(database, kafka, topic(partitions=1), topic(partitions=2), request.param)


def lasts(sent) -> Counter:
    """Counts the records of the topic by their number and whether they are the last of their commit."""
    records = [headers for part in read_topic(sent.kafka, sent.topic).values() for _, _, headers in part]
    return Counter((int(each["lockstep.number"]), each["lockstep.last"]) for each in records)


def expire(sent) -> None:
    """Deletes the relay's group, once the marker of its last transaction is there."""
    assert sent.cursor() == sent.knows()[0]
    admin = AdminClient({"bootstrap.servers": sent.kafka})
    for done in admin.delete_consumer_groups([sent.group]).values():
        done.result(20)


def test_e22_every_image_of_a_key_loses_its_row_and_keeps_its_number(here):
    here.change((KEY, 1), ("zoe", 1))
    here.change((KEY, 2))
    here.change(gone=(KEY,))
    here.change((KEY, 3))
    shown = here.erase(preview=True)
    assert (2, "before", KEY, 1) in here.images()

    done = here.erase()

    assert done == shown
    assert (done.left, done.rows) == ((), {"lockstep_feed.public_orders": 5, "public.orders": 1})
    blank = [(number, "erased", None, None) for number in range(6)]
    assert here.images() == [blank[0], (1, "insert", "zoe", 1), *blank[2:]]
    read = here.ask("select number, change, id, n, _stream from lockstep_feed.public_orders_from(0, 3)")
    assert read == [(0, "erased", None, None, None), (1, "insert", "zoe", 1, 1), (2, "erased", None, None, None)]
    assert holding(here.dsn) == []
    assert here.unproved() == []
    again = here.erase()
    assert (again.changed, again.left) == (False, ())


def test_e17_a_topic_that_ends_before_erased_changes_leads_on_where_the_cursor_has_expired(sent):
    sent.change(("zoe", 1), (KEY, 1))
    sent.relay()
    sent.erase()
    sent.relay()
    sent.erase()
    recreate(sent.kafka, sent.topic, 2)
    restart(sent.at, sent.pipeline, sent.target, this_owner(), 0, Person("me", "a new topic"))
    assert sent.relay().stopped is None
    confirmed, _ = sent.knows()
    assert {number for number, _ in lasts(sent)} == {1}
    assert confirmed > 2
    expire(sent)
    assert sent.relay().stopped is None
    sent.change(("zoe", 2))
    assert sent.relay().sent == 1


def test_several_keys_go_one_by_one_and_the_others_images_stay(here):
    here.change((KEY, 1), ("a", 2), ("b", 3))
    here.change((KEY, 4), ("a", 5), ("b", 6))
    here.erase()
    here.erase("a")
    kept = [each for each in here.images() if each[1] != "erased"]
    assert kept == [(1, "insert", "b", 3), (4, "before", "b", 3), (4, "after", "b", 6)]
    assert [each[0] for each in here.images() if each[1] == "erased"] == [0, 2, 3, 5, 6, 7]
    assert here.unproved() == []


def test_an_update_that_loses_one_of_its_rows_inserts_or_deletes_the_other(here):
    here.change(("a", 1), ("b", N))
    here.change(("a", N))
    here.change(("a", 2), ("b", 3))
    here.change(("c", N))
    here.change(gone=("b",))

    done = here.erase(str(N), "n")

    assert (done.left, done.rows) == ((), {"lockstep_feed.public_orders": 6, "public.orders": 1})
    assert here.images() == [
        (0, "insert", "a", 1),
        (1, "erased", None, None),
        (2, "delete", "a", 1),
        (3, "insert", "a", 2),
        (4, "insert", "b", 3),
        (5, "erased", None, None),
        (6, "delete", "b", 3),
        (7, "erased", None, None),
    ]
    assert here.unproved() == []


def test_who_comes_back_begins_anew_and_can_be_erased_again(here):
    here.change((KEY, 1))
    here.erase()
    here.change((KEY, 2))
    assert here.images()[2:] == [(2, "insert", KEY, 2)]
    assert here.unproved() == []
    here.erase()
    assert here.images() == [(number, "erased", None, None) for number in range(4)]
    assert holding(here.dsn) == []


def test_a_key_in_another_column_stays_and_is_told(here):
    here.change(("a", N), (str(N), 1))
    done = here.erase(str(N), "id")
    (told,) = [each for each in done.left if "feed" in each]
    assert told == (
        "1 changes in the feed of public.orders, in another column or of another pipeline, until they are older than 7 days"
    )
    assert here.images() == [(0, "erased", None, None), (1, "insert", "a", N), (2, "erased", None, None)]


def test_the_last_change_that_is_left_of_a_set_is_told_as_the_last(sent):
    sent.change(("a", 1), ("b", 1), (KEY, 1))
    sent.change((KEY, 2))
    sent.change(("a", 2), (KEY, 3))
    sent.relay()
    assert sorted(lasts(sent)) == [(0, "false"), (1, "false"), (2, "true"), (3, "true"), (4, "false"), (5, "true")]
    sent.erase()
    sent.relay()
    assert sent.erase().left == ()
    before = lasts(sent)
    restart(sent.at, sent.pipeline, sent.target, this_owner(), 0, Person("me@here", "again"))

    assert sent.relay().stopped is None

    assert sorted((lasts(sent) - before).elements()) == [(0, "false"), (1, "true"), (4, "true")]


def test_changes_that_are_not_sent_stay_until_the_relay_has_sent_them(sent):
    sent.change((KEY, 1), ("zoe", 1))
    sent.change((KEY, 2))
    sent.relay()
    before = sent.images()

    done = sent.erase()

    assert done.left == (WAITS.format(3),)
    assert sent.images() == [*before, (3, "delete", KEY, 2)]
    assert sent.relay().sent == 1
    again = sent.erase()
    assert (again.changed, again.left, again.rows) == (True, (), {"lockstep_feed.public_orders": 3})
    assert [each for each in sent.images() if each[1] != "erased"] == [(1, "insert", "zoe", 1)]
    assert holding(sent.dsn) == []
    its = [
        record for part in read_topic(sent.kafka, sent.topic).values() for record in part if record[0] == KEY.encode()
    ]
    assert (its[-1][1], its[-1][2]["lockstep.op"]) == (None, "delete")
    assert sent.unproved() == []
    assert not sent.erase().changed


def test_a_row_that_waits_keeps_its_own_changes_and_no_others(sent):
    sent.change(("a", 1))
    sent.change(("a", N))
    sent.change(("a", 2))
    sent.relay()
    sent.change(("c", N))

    done = sent.erase(str(N), "n")

    assert done.left == (WAITS.format(2),)
    assert done.rows == {"lockstep_feed.public_orders": 2, "public.orders": 1}
    assert sent.images() == [
        (0, "insert", "a", 1),
        (1, "delete", "a", 1),
        (2, "insert", "a", 2),
        (3, "insert", "c", N),
        (4, "delete", "c", N),
    ]
    assert sent.unproved() == []
    sent.relay()
    assert sent.erase(str(N), "n").left == ()
    assert sent.images()[3:] == [(3, "erased", None, None), (4, "erased", None, None)]
    assert sent.unproved() == []


def test_e22_a_relay_that_begins_anew_steps_over_what_was_erased(sent):
    sent.change((KEY, 1), ("zoe", 1))
    sent.change((KEY, 2))
    sent.relay()
    sent.erase()
    sent.relay()
    sent.erase()
    before = sum(len(part) for part in read_topic(sent.kafka, sent.topic).values())
    for number, wanted in ((2, 0), (0, 1)):
        restart(sent.at, sent.pipeline, sent.target, this_owner(), number, Person("me", "a test"))
        report = sent.relay()
        assert (report.sent, report.stopped, sent.knows()) == (wanted, None, (4, None))
        assert sent.unproved() == []
    records = [record for part in read_topic(sent.kafka, sent.topic).values() for record in part]
    assert len(records) == before + 1
    assert sent.relay().transactions == 0


def test_rows_of_another_pipeline_keep_their_images_until_it_erases_them(here):
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute(SHARES)
        cur.execute(OWNS)
        cur.execute(STREAM, ("more", here.pipeline.topic))
    here.change((KEY, 1))
    here.change(gone=(KEY,))
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("select lockstep.manual_change('public.orders', 'a test')")
        cur.execute(OF_MORE, (KEY,))
    before = here.images()

    done = here.erase()

    assert here.images() == before
    assert done.rows == {}
    assert any(each.startswith("3 changes in the feed of public.orders, in another column or of") for each in done.left)
    more = replace(here.pipeline, name="more")
    assert here.erase(pipeline=more).left == ()
    assert here.images() == [(number, "erased", None, None) for number in range(4)]
    assert holding(here.dsn) == []
    assert here.unproved() == []


def test_an_erased_change_that_its_decision_does_not_say_is_named(here):
    here.change((KEY, 1), ("zoe", 1))
    here.erase()
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("delete from lockstep.blank_change where ordinal = 0 and change_set_id = 1")
    assert here.unproved() == [
        "the feed's numbers have no gap: change 0 has lost its row, and no erasure names it",
        "what was erased stays out: erasure 1: what it took out is not what decision 3 says",
    ]
