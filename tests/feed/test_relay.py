"""Tests that a relay sends each change once and in order, and that the topic's records add up to the table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from feed.sending import Sending, read_topic, sent_to
from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.pipeline.definition import Feed, Json, Pipeline, Topic, Upsert
from lockstep.faults import InjectedFault
from lockstep.ledger.feed.make import make_feeds
from lockstep.steps.feed.relay import relay

ORIGIN = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"


@pytest.fixture
def sending(database, kafka, topic):
    """Returns `sending(shape)`: a table whose feed goes to a topic of two partitions."""

    def make(shape: str = "row", **settings: Any) -> Sending:
        here = Sending(database, kafka, sent_to(topic(partitions=2, **settings), shape))
        here.make()
        return here

    return make


def test_every_change_is_sent_once_in_its_order_and_the_topic_folds_to_the_table(sending):
    here = sending()
    for n in range(5):
        here.change(*((f"k{i}", n) for i in range(8)))
    here.change(gone=("k0", "k1"))

    report = here.relay()

    assert (report.sent, report.transactions, report.stopped) == (42, 1, None)
    assert here.knows() == (42, None)
    assert here.cursor() == 42
    assert here.wrong() == []
    again = here.relay()
    assert (again.sent, again.stopped) == (0, None)
    here.change(("k0", 9))
    assert here.relay().sent == 1
    assert here.wrong() == []


def test_e19_values_are_exact_and_times_are_in_utc(sending):
    here = sending()
    price = "123456789012345678.123456789012"
    here.change(("ä\"'\n", 1, price, "2026-05-01 12:00:00.25+02", b"\x00\xff", 0.1), ("none", None))

    here.relay()

    found = {key.decode(): value for part in read_topic(here.kafka, here.topic).values() for key, value, _ in part}
    assert found["ä\"'\n"].decode().count(price) == 1
    assert json.loads(found["ä\"'\n"], parse_float=str) == {
        "id": "ä\"'\n", "n": 1, "price": price, "at": "2026-05-01T10:00:00.250000Z", "raw": "AP8=", "share": "0.1",
    }  # fmt: skip
    assert json.loads(found["none"]) == {
        "id": "none", "n": None, "price": None, "at": None, "raw": None, "share": None,
    }  # fmt: skip


@pytest.mark.parametrize(("type_", "key"), [("float4", "share"), ("float8", "share"), ("float8", "n, share")])
def test_e19_a_key_of_minus_zero_is_sent_as_that_of_zero(database, kafka, topic, type_, key):
    names = tuple(key.split(", "))
    feed = Feed(to=Topic(topic(partitions=2)))
    target = Upsert("public.shares", key=names, feed=feed)
    here = Sending(database, kafka, Pipeline("shares", "shares.v1", Json("n int, share double"), target))
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute(f"create table public.shares (n int, share {type_}, {ORIGIN}, primary key ({key}))")
        cur.execute("insert into lockstep.pipeline (name) values ('shares')")
        cur.execute("insert into lockstep.target_owner values ('', 'public.shares', 'shares')")
        make_feeds(cur, here.pipeline)
    for share in ("-0.0", "0.0"):  # a replay takes the row out, and puts in what its records say
        with transaction(here.at.conn, OWNER) as cur:
            cur.execute("select lockstep.manual_change('public.shares', 'a test')")
            cur.execute("delete from public.shares")
            cur.execute("insert into public.shares values (1, %s, 1, 0, 0, 0), (1, 0.1, 1, 1, 0, 0)", (share,))
        here.relay()

    keys = [record[0] for part in read_topic(here.kafka, here.topic).values() for record in part]
    assert set(keys) == ({b"0", b"0.1"} if names == ("share",) else {b"[1, 0]", b"[1, 0.1]"})


def test_e19_headers_say_which_change_it_is(sending):
    here = sending()
    here.change(("a", 1))
    here.change(("a", 2), ("b", 1))
    here.change(gone=("a",))

    here.relay()

    told = [headers for part in read_topic(here.kafka, here.topic).values() for _, _, headers in part]
    told = sorted(
        (int(each["lockstep.number"]), int(each["lockstep.seq"]), each["lockstep.op"], each["lockstep.kind"],
         each["lockstep.batch"], each["lockstep.last"])
        for each in told
    )  # fmt: skip
    assert told == [
        (0, 1, "insert", "manual", "", "true"),
        (1, 2, "update", "manual", "", "false"),
        (2, 2, "insert", "manual", "", "true"),
        (3, 3, "delete", "manual", "", "true"),
    ]
    lines = {
        headers["lockstep.timeline"] for part in read_topic(here.kafka, here.topic).values() for _, _, headers in part
    }
    assert [(each,) for each in lines] == here.ask("select timeline::text from lockstep.feed")


def test_e19_documents_have_the_row_before_and_after_and_a_tombstone_follows_a_deletion(sending):
    here = sending("change")
    here.change(("a", 1))
    here.change(("a", 2))
    here.change(gone=("a",))

    here.relay()

    (records,) = [part for part in read_topic(here.kafka, here.topic).values() if part]
    documents = [None if value is None else json.loads(value) for _, value, _ in records]
    rows = [(each["op"], *(row and row["n"] for row in (each["before"], each["after"]))) for each in documents if each]
    assert rows == [("insert", None, 1), ("update", 1, 2), ("delete", 2, None)]
    assert documents[-1] is None
    source = documents[1]["source"]
    assert (source["target"], source["number"], source["seq"], source["kind"], source["batch"]) == (
        "public.orders", 1, 2, "manual", None,
    )  # fmt: skip
    assert here.relay().sent == 0


def test_e18_a_transaction_takes_whole_sets_and_a_larger_set_in_parts(sending, monkeypatch):
    monkeypatch.setattr("lockstep.steps.feed.relay.MOST_SENT", 5)
    here = sending()
    for n, size in enumerate((2, 2, 2, 12, 1)):
        here.change(*((f"k{i}", n) for i in range(size)))
    seen: list[int] = []

    report = relay(here.at, here.pipeline, here.target, "me", seen.append)

    assert seen == [4, 6, 11, 16, 19]
    assert (report.sent, report.transactions) == (19, 5)
    assert here.wrong() == []


def test_e18_a_transaction_is_bounded_by_its_bytes_too(sending, monkeypatch):
    monkeypatch.setattr("lockstep.steps.feed.relay.MOST_SENT_BYTES", 12_000, raising=False)
    here = sending()
    wide = "x" * 2_000  # a key, which stands in the record's key and in its value: 4,000 bytes and more
    here.change((f"a{wide}", 1), (f"b{wide}", 1))
    here.change((f"c{wide}", 1))
    here.change(*((f"{n}{wide}", 1) for n in range(5)))
    here.change((wide * 10, 1))
    here.change(("small", 1))
    seen: list[int] = []

    report = relay(here.at, here.pipeline, here.target, "me", seen.append)

    # Two sets do not fit together, the third is larger and cut inside, and one change alone is too large.
    assert seen == [2, 3, 5, 7, 8, 9, 10]
    assert (report.sent, report.transactions) == (10, 7)
    assert here.wrong() == []


def test_e18_a_relay_that_dies_behind_a_transaction_cut_by_its_bytes_goes_on_behind_it(sending, monkeypatch, tmp_path):
    """Kafka's cursor is where the transaction was cut, and the ledger must have that number as its intent."""
    monkeypatch.setattr("lockstep.steps.feed.relay.MOST_SENT_BYTES", 12_000)
    (armed := tmp_path / "armed").touch()
    monkeypatch.setenv("LOCKSTEP_FAULT", f"relay.committed=raise@{armed}")
    here = sending()
    here.change(*((f"{n}{'x' * 2_000}", 1) for n in range(5)))
    with pytest.raises(InjectedFault):
        here.relay()

    report = here.relay()

    assert (report.stopped, report.sent) == (None, 3)
    assert here.wrong() == []


def test_e19_a_key_stands_where_every_other_producer_puts_it(sending, produce):
    here = sending()
    keys = [f"key-{n}" for n in range(40)]
    here.change(*((key, 1) for key in keys))
    here.relay()
    ours = {key: part for part, records in read_topic(here.kafka, here.topic).items() for key, _, _ in records}

    produce(here.topic, [(key, "{}") for key in keys])

    both = [(key, part) for part, records in read_topic(here.kafka, here.topic).items() for key, _, _ in records]
    assert sorted(both) == sorted([*ours.items(), *ours.items()])
