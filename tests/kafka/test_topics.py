"""Tests a pipeline of several topics: one appears while it runs, one vanishes, limits are shared, a key stays in one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import BadData, Refusal
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.planning.decisions import Blocked, Caller, Idle, Start
from lockstep.engine.chosen import engine_of
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.views.reading import read_rejects
from lockstep.steps.batch.run import until_idle
from lockstep.steps.changes.decisions import abandon
from lockstep.steps.changes.retire import retire
from lockstep.steps.changes.skip import skip
from lockstep.steps.inspect.status import status
from lockstep.steps.inspect.warn import known_partitions, warn
from lockstep.steps.requests import history
from lockstep.steps.requests.redrive import Held, redrive
from support.engines import IN_PROCESS
from support.scenes.here import ME, NEWEST
from support.scenes.history_run import Run
from support.scenes.odd_logs import delete_records, grow, recreate
from support.scenes.several import Several
from support.servers.servers import make_topic


@pytest.fixture
def several(here, produce, topic):
    return Several(here, produce, topic(partitions=1))


def test_a_topic_that_appears_while_it_runs_is_whole_and_opened_by_a_decision(several):
    several.make("eu")
    several.say(several.like(), "limits=", 'start="latest", limits=')
    assert isinstance(several.drain(), Idle), "nothing is there yet"
    several.send("eu", 0, 30)
    several.send("eu", 30, 20, partition=1)
    several.make("us", partitions=1)
    several.send("us", 0, 40)
    make_topic(several.kafka, f"__{several.base}.internal", 1)

    assert isinstance(several.drain(), Idle)

    assert several.rows() == several.whole(), "from offset 0, although the pipeline began at the end"
    assert several.here.drill.ask("select why, detail from lockstep.decision where kind = 'topic' order by 1") == [
        ("the first plan", {"topics": {several.name("eu"): {"0": 0, "1": 0}}}),
        ("topics that have appeared, or that the definition names now", {"topics": {several.name("us"): {"0": 0}}}),
    ]
    assert several.violations() == []


@pytest.mark.long
def test_limits_are_shared_by_lag_and_positions_are_shown_by_topic(several):
    for end, count in (("eu", 90), ("us", 8)):
        several.make(end)
        several.send(end, 0, count)
    several.say(several.pair(), "records=200", "records=30")

    report = several.run()

    read = {str(row.topic): row.until_offset - row.from_offset for row in report.ranges}
    assert read == {several.name("eu"): 22, several.name("us"): 8}, "the small one whole, the rest to the other"
    assert isinstance(several.drain(), Idle)
    assert several.rows() == several.whole()
    shown = status(several.here.at.conn, several.here.at.broker, load("drill").pipeline, datetime.now(UTC))
    ends = [(s["topic"], s["partition"], s["position"], s["lag_records"]) for s in shown["streams"]]
    eu, us = several.name("eu"), several.name("us")
    assert ends == [(eu, 0, 90, 0), (eu, 1, 0, 0), (us, 0, 8, 0), (us, 1, 0, 0)]
    assert several.violations() == []


def test_a_topic_that_vanishes_stops_its_own_streams_alone_until_it_is_left(several):
    for end in ("eu", "us"):
        several.make(end, partitions=1)
        several.send(end, 0, 10)
    several.say(several.like())
    several.drain()
    several.delete("us")
    several.send("eu", 10, 5)

    report = several.run()
    blocked = several.drain()
    known = known_partitions(several.here.at.conn, load("drill").pipeline)
    warned = warn(several.here.at.conn, several.here.at.broker, load("drill").pipeline, known, datetime.now(UTC))

    us = several.name("us")
    assert report.went_on
    assert blocked == Blocked(
        f"{us}-0: topic {us} is gone; the position is 10. Its other topics go on",
        f"lockstep retire drill --topic {us} --reason ...",
        readings=2,
    )
    assert [(each["kind"], each["topic"], each["next"]) for each in warned] == [
        ("topic_gone", us, f"lockstep retire drill --topic {us} --reason ...")
    ]
    with pytest.raises(Refusal, match="a partition is one of a topic"):
        retire(several.here.at.conn, several.here.at.broker, load("drill").pipeline, None, ME)
    done = several.retire(us)
    assert [(str(s.topic_partition), why) for s, why in done.retired] == [(f"{us}-0", "the topic is gone")]
    assert isinstance(several.drain(), Idle)
    assert several.rows() == several.whole(), "its rows stay"

    several.make("us", partitions=1)  # another log of the same name: whole, from its own beginning
    several.send("us", 50, 3)
    several.drain()
    assert several.rows() == several.whole()
    facts = "select start_offset, incarnation from lockstep.stream where topic = %s order by stream_id"
    assert several.here.drill.ask(facts, us) == [(0, 0), (0, 1)]


@pytest.mark.long
def test_a_batch_that_reads_a_vanished_topic_waits_for_a_person_who_leaves_it(several):
    for end in ("eu", "us"):
        several.make(end, partitions=1)
        several.send(end, 0, 10)
    several.say(several.pair())
    assert isinstance(several.here.plan(), Start)
    several.delete("us")

    blocked = several.run().decision

    us = several.name("us")
    assert isinstance(blocked, Blocked)
    assert blocked.reason.startswith(f"{us}-0 [0, 10): batch 1 was planned on topic id ")
    assert blocked.next_command == f"lockstep retire drill --topic {us} --reason ..."
    assert several.retire(us).abandoned == (1,)
    assert isinstance(several.drain(), Idle)
    assert several.rows() == [row for row in several.whole() if row[0] != us]


@pytest.mark.long
def test_a_recreated_topic_of_several_stops_them_and_retire_begins_it_anew(several):
    for end in ("eu", "us"):
        several.make(end, partitions=1)
        several.send(end, 0, 10)
    several.say(several.pair())
    several.drain()
    recreate(several.kafka, several.name("us"), 1)
    several.send("us", 90, 4)

    blocked = several.run().decision

    us = several.name("us")
    assert isinstance(blocked, Blocked)
    assert blocked.next_command == f"lockstep retire drill --topic {us} --reason ..."
    assert several.retire(us).opened == {0: 0}
    assert isinstance(several.drain(), Idle)
    assert several.rows() == several.whole()


def test_the_same_key_on_two_topics_is_refused_with_the_remedy_and_order_by_is_one(several):
    for end in ("eu", "us"):
        several.make(end, partitions=1)
    here = several.here
    several.say(several.pair(), 'Append("public.drill")', 'Upsert("public.newest", key=("id",))')
    (here.drill.home / "drill" / "target.sql").write_text(NEWEST)
    migrate_target(here.at.conn, load("drill"))
    several.send("eu", 0, 5)
    several.drain()
    several.produce(several.name("us"), [("eu3", json.dumps({"id": "eu3", "n": 77}))])

    with pytest.raises(
        BadData, match=r"a key stands in two topics .*which record is newer; name a column with order_by  "
    ) as refused:
        several.run()
    assert "eu3" in (refused.value.values or "")
    assert here.drill.ask("select id, n from public.newest where id = 'eu3'") == [("eu3", 3)], "nothing was written"

    here.rewrite('key=("id",)', 'key=("id",), order_by="n"')
    assert isinstance(several.drain(), Idle)
    assert here.drill.ask("select id, n from public.newest order by n") == [
        ("eu0", 0), ("eu1", 1), ("eu2", 2), ("eu4", 4), ("eu3", 77),
    ]  # fmt: skip


@pytest.mark.long
def test_a_key_of_a_topic_that_has_grown_is_refused_in_another_topic(several):
    for end in ("eu", "us"):
        several.make(end, partitions=1)
    here, eu, us = several.here, several.name("eu"), several.name("us")
    several.say(several.pair(), 'Append("public.drill")', 'Upsert("public.newest", key=("id",))')
    (here.drill.home / "drill" / "target.sql").write_text(NEWEST)
    migrate_target(here.at.conn, load("drill"))
    several.drain()
    grow(several.kafka, eu, 2)
    several.drain()
    several.produce(eu, [("a", json.dumps({"id": "a", "n": 1}))], 1)
    several.drain()
    assert here.drill.ask("select topic, max(epoch) from lockstep.stream group by 1 order by 1") == [(eu, 1), (us, 0)]

    several.produce(us, [("a", json.dumps({"id": "a", "n": 2}))])
    with pytest.raises(BadData, match=rf"a key stands in two topics \({eu} and {us}, streams"):
        several.run()
    (batch,) = here.drill.ask("select batch_id from lockstep.batch where state = 'planned'")
    abandon(here.at.conn, batch[0], ME)
    skip(here.at.conn, here.at.broker, load("drill").pipeline, None, ME, datetime.now(UTC), us)
    for topic, n in ((eu, 3), (us, 4)):
        several.produce(topic, [("b", json.dumps({"id": "b", "n": n}))], 0)
    with pytest.raises(BadData, match=rf"a key stands in two topics \({us} and {eu}, streams"):
        several.run()
    assert here.drill.ask("select id, n from public.newest") == [("a", 1)]


def test_records_of_two_topics_are_told_apart_by_topic_and_partition(several):
    for end, count in (("eu", 7), ("us", 5)):
        several.make(end, partitions=1)
        several.send(end, 0, count)
    ranges = [
        StreamRange(number, OffsetRange(TopicPartition(several.name(end), 0), begin, until_offset))
        for number, end, begin, until_offset in ((5, "us", 1, 5), (9, "eu", 2, 4))
    ]

    found = [row for batch in KafkaRanges(several.kafka, KafkaOptions()).records(ranges) for row in batch.to_pylist()]

    told = [(row["_stream"], row["_topic"], row["_offset"], row["_key"].decode()) for row in found]
    assert told == [(5, several.name("us"), n, f"us{n}") for n in range(1, 5)] + [
        (9, several.name("eu"), n, f"eu{n}") for n in range(2, 4)
    ]


@pytest.mark.long
def test_a_new_topic_is_refused_by_name_and_more_than_the_limit_in_one_line(several):
    several.make("eu", partitions=1)
    several.send("eu", 0, 5)
    several.say(several.like(new="refuse"))
    several.drain()
    us = several.make("us", partitions=1)
    several.send("us", 0, 5)

    blocked = several.run().decision

    assert isinstance(blocked, Blocked)
    assert blocked.reason == (
        f"drill: topic {us} has appeared and matches {several.base + '[.].*'!r}, and topic.new is 'refuse'"
    )
    assert blocked.next_command == "say new='earliest' or leave it out of the pattern, then lockstep plan drill"
    several.say(several.like(limit=1))
    with pytest.raises(Refusal, match=r"drill: 2 topics match .*, and topic.limit is 1  "):
        several.run()
    several.say(several.like())
    several.drain()
    assert several.rows() == several.whole()


@pytest.mark.long
def test_a_topic_is_added_by_the_definition_taken_away_by_retire_and_goes_on_where_it_was_left(several):
    here, eu, us = several.here, several.name("eu"), several.name("us")
    for end in ("eu", "us"):
        several.make(end, partitions=1)
        several.send(end, 0, 10)
    several.say(repr(eu))
    several.drain()
    several.say(several.pair())
    several.drain()
    assert several.rows() == several.whole(), "from the pipeline's start: the earliest"

    several.say(repr((eu,)))
    blocked = several.run().decision
    assert isinstance(blocked, Blocked)
    assert blocked.next_command == f"put it back, or lockstep retire drill --topic {us} --reason ..."
    several.retire(us)
    several.send("us", 10, 7)
    assert isinstance(several.drain(), Idle)
    several.say(several.pair())
    several.drain()

    assert several.rows() == several.whole(), "no record twice, none left out"
    assert here.drill.ask("select start_offset, incarnation from lockstep.stream where topic = %s order by 1", us) == [
        (0, 0), (10, 0),
    ]  # fmt: skip
    assert several.violations() == []
    several.say(repr(("no.such.topic", eu)))
    with pytest.raises(Refusal, match=r"^drill: the broker has no topic no\.such\.topic  "):
        several.run()


@pytest.mark.long
def test_a_form_names_the_topic_of_its_offsets_as_the_command_line_does(several):
    for end in ("eu", "us"):
        several.make(end, partitions=1)
        several.send(end, 0, 10)
    several.say(several.pair())
    several.drain()
    here, us = several.here, several.name("us")
    offsets: dict[str, Any] = {"from_offsets": ["0:2"], "until_offsets": ["0:4"]}
    with pytest.raises(Refusal, match=r"a partition is one of a topic  Next: name it: --topic$"):
        Run(here, "none", action="replay", **offsets).ask()
    with pytest.raises(Refusal, match="it reads no topic strange now; there are: "):
        Run(here, "strange", action="replay", topic="strange", **offsets).ask()

    named = Run(here, "named", action="replay", topic=us, preview=True, **offsets)
    (asked,) = named.ask()

    assert [str(item.offsets) for item in asked.windows] == [f"{us}-0 [0, 10)"]
    (wider,) = history.widened_stretches(here.at.conn, named.asked, [asked])
    assert (wider.offsets.span, wider.asked) == (10, 2)
    (one,) = Run(here, "one", action="replay", topic=us, partition=0).ask()
    assert [str(item.offsets) for item in one.windows] == [f"{us}-0 [0, 10)"]

    several.send("us", 10, 5)
    (line,) = Run(here, "skips", action="skip", reason="r", topic=us, until_offsets=["0:13"]).decide()
    assert line == f"{us}-0 [10, 13) is skipped and can be filled"
    several.drain()
    delete_records(several.kafka, us, 15)
    several.send("us", 15, 1)
    delete_records(several.kafka, us, 16)
    loss = Run(here, "loses", action="accept-loss", reason="r", topic=us, from_offsets=["0:15"], until_offsets=["0:16"])
    (shown,) = history.given_up_offsets(here.at, here.folder.pipeline, loss.asked)
    assert shown == {
        "partition": f"{us}-0",
        "from_offset": 15,
        "until_offset": 16,
        "position": 15,
        "log_start": 16,
    }
    assert loss.decide() == [f"{us}-0 [15, 16) is recorded as lost; the position is 16"]


@pytest.mark.long
def test_rejects_of_a_topic_are_listed_and_redriven_alone(several):
    for end in ("eu", "us"):
        several.make(end, partitions=1)
        several.produce(several.name(end), [("k", "{")] * 2 + [("k", '{"id": "a", "n": 1}')] * 8, 0)
    several.say(several.pair(), "limits=", "max_reject_share=1.0, limits=")
    several.drain()
    here, us = several.here, several.name("us")
    with transaction(here.at.conn, READER) as cur:
        listed, _ = read_rejects(cur, "drill", 0, None, 10, us)
    assert [(each["topic"], each["offset"]) for each in listed] == [(us, 0), (us, 1)]
    with pytest.raises(Refusal, match="a partition is one of a topic"):
        redrive(here.at.conn, here.at.broker, here.folder, Held(partition=0), ME)
    found = redrive(here.at.conn, here.at.broker, here.folder, Held(partition=0, topic=us), ME)
    assert [str(item.offsets) for item in found.asked.windows] == [f"{us}-0 [0, 10)"]


@pytest.mark.long
def test_a_deletion_moves_between_topics_where_the_source_orders_both(several):
    """One database's changes go to two topics. Its log orders them, whichever topic a change came by."""
    here = several.here
    for end in ("eu", "us"):
        several.make(end, partitions=1)
    several.say(several.pair(), 'Json("id string, n int")', 'Debezium("id string, n int", order="source")')
    here.rewrite("import Append,", "import Append, Debezium,")
    here.rewrite('target=Append("public.drill")', 'target=Upsert("public.drill", key=("id",))')
    with here.at.conn, here.at.conn.cursor() as cur:
        cur.execute("drop table public.drill")
    (here.drill.home / "drill" / "target.sql").write_text(
        "create table public.drill (id text primary key, n int, _source_order bytea, _stream int4 not null,"
        " _offset int8 not null, _ordinal int4 not null, _batch int8 not null);"
    )
    migrate_target(here.at.conn, load("drill"))

    def change(end: str, op: str, lsn: int, n: int | None, *, bare: bool = False) -> None:
        row = {"id": "a", "n": n} if n is not None else None
        source = {"connector": "postgresql", "lsn": lsn, "ts_ms": 1_700_000_000_000 + lsn}
        value = {"before": None if row else {"id": "a", "n": 0}, "after": row, "source": source, "op": op}
        several.produce(several.name(end), [('{"id": "a"}', None if bare else json.dumps(value))], 0)
        several.drain()

    def rows() -> list[tuple]:
        return here.drill.ask("select id, n from public.drill")

    change("eu", "c", 10, 1)
    change("eu", "d", 20, None)
    change("us", "c", 30, 3)
    assert rows() == [("a", 3)]
    change("us", "d", 40, None)
    assert rows() == []
    change("eu", "u", 25, 2)
    assert rows() == [], "an older change of the other topic raises no dead"
    change("eu", "d", 35, None)
    change("eu", "d", 35, None, bare=True)
    change("us", "u", 38, 9)
    assert rows() == [], "an older deletion, and a tombstone without a place, take nothing from the newer one"
    change("eu", "c", 50, 5)
    assert rows() == [("a", 5)]
    told = 'select s.topic, d."offset" from lockstep.tombstone d join lockstep.stream s using (stream_id)'
    assert here.drill.ask(told) == [(several.name("us"), 1)]
    for end in ("eu", "us"):
        asked = here.ask("replay", "0:0", "0:9", topic=several.name(end))
        engine = engine_of(load("drill"), here.at.broker, here.at.dsn, lambda: None, IN_PROCESS)
        list(until_idle(here.at, engine, load("drill"), Caller("me"), 1, request_id=asked.request_id))
    assert rows() == [("a", 5)], "the row is newer than each deletion"
