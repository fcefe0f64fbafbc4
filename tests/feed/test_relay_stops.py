"""Tests that a relay stops where Kafka and the ledger disagree, and that the command it names lets it go on (E17, E21)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing

import psycopg2
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from feed.sending import Sending, read_topic, sent_to
from lockstep.adapters.kafka.sink import SinkWriter
from lockstep.adapters.postgres import OWNER, PLANNER, connect, transaction
from lockstep.adapters.processes import this_owner
from lockstep.core.changes.person import Person
from lockstep.core.errors import Refusal, Superseded
from lockstep.core.feed.relaying import NUMBER_HEADER
from lockstep.core.pipeline.definition import Feed, Json, Pipeline, Topic, Upsert
from lockstep.core.planning.decisions import Blocked, Busy
from lockstep.ledger.feed import outgoing, relays
from lockstep.ledger.feed.make import make_feeds
from lockstep.ledger.feed.trim import trim
from lockstep.steps.feed.relay import restart
from lockstep.steps.upkeep.trim_feeds import trim_feeds
from support.scenes.odd_logs import grow, recreate

ME = Person("me@here", "a test")
AGE = "update lockstep.change_set set at = at - interval '8 days'"


@pytest.fixture
def here(database, kafka, topic):
    """Returns a table with three changes, all of them sent."""
    here = Sending(database, kafka, sent_to(topic(partitions=2)))
    here.make()
    here.change(("a", 1), ("b", 1))
    here.change(("a", 2))
    assert here.relay().sent == 3
    return here


def superuser(here, postgres, statement: str) -> None:
    """Changes the ledger as a restore of an older state does: past every guard."""
    ((database,),) = here.ask("select current_database()")
    with psycopg2.connect(postgres, dbname=database) as conn, conn.cursor() as cur:
        cur.execute("set session_replication_role = replica")
        cur.execute(statement)


def make_again(here) -> None:
    with transaction(here.at.conn, OWNER) as cur:
        make_feeds(cur, here.pipeline)


def why(here) -> str:
    report = here.relay()
    assert isinstance(report.stopped, Blocked), report
    assert report.sent == 0
    assert "--restart-at" in report.stopped.next_command
    return report.stopped.reason


def leave(here, number: int, sent: int) -> None:
    restart(here.at, here.pipeline, here.target, this_owner(), number, ME)
    assert here.relay().sent == sent
    assert here.relay().stopped is None


def delete_group(here) -> None:
    """Deletes the relay's group. A marker that came later would make it again."""
    assert here.cursor() == here.knows()[0]
    admin = AdminClient({"bootstrap.servers": here.kafka})
    for done in admin.delete_consumer_groups([here.group]).values():
        done.result(20)


def test_e17_a_ledger_of_an_older_state_sends_nothing_until_a_person_says_where(here, postgres):
    superuser(here, postgres, "update lockstep.relay set confirmed = 1")
    assert "Kafka was given the changes below number 3, and the ledger knows of those below 1" in why(here)
    leave(here, 3, 0)
    assert here.wrong() == []


def test_e17_a_ledger_of_before_the_first_relay_sends_nothing_again_where_the_cursor_has_expired(here, postgres):
    delete_group(here)
    superuser(here, postgres, "update lockstep.relay set confirmed = 0, intent = null")
    assert "Kafka has no cursor any more, the topic ends with number 2, and the ledger knows of [0, 0)" in why(here)
    leave(here, 3, 0)
    assert here.wrong() == []


def test_e17_a_cursor_that_went_back_sends_nothing(here, postgres):
    here.change(("a", 3))
    superuser(here, postgres, "update lockstep.relay set confirmed = 4")
    assert "cursor at number 3, and had acknowledged the changes below 4" in why(here)
    leave(here, 3, 1)
    assert here.wrong() == []


def test_e17_a_lost_cursor_is_found_again_by_the_topics_end(here):
    here.change(("a", 3))
    delete_group(here)
    assert here.relay().sent == 1
    assert here.wrong() == []


@pytest.mark.parametrize("said", ["x", "", None])
def test_e17_a_lost_cursor_is_found_again_behind_a_strangers_record(here, said):
    producer = Producer({"bootstrap.servers": here.kafka})
    for partition in range(2):
        producer.produce(here.topic, b"{}", b"k", partition=partition, headers=[(NUMBER_HEADER, said)])
    assert producer.flush(20) == 0
    here.change(("a", 3))
    delete_group(here)
    assert here.relay().sent == 1


def test_e17_a_lost_cursor_of_an_empty_topic_sends_nothing(here):
    delete_group(here)
    admin = AdminClient({"bootstrap.servers": here.kafka})
    ends = [TopicPartition(here.topic, each, -1) for each in range(2)]
    for done in admin.delete_records(ends).values():
        done.result(20)
    assert "no cursor any more, the topic has no change, and the ledger knows of [0, 3)" in why(here)
    leave(here, 1, 2)


def test_e17_a_topic_that_was_made_anew_is_not_the_one_that_was_written(here):
    recreate(here.kafka, here.topic, 2)
    here.change(("c", 3))
    assert "was deleted and made anew" in why(here)
    leave(here, 0, 4)
    assert here.wrong() == []


def test_e17_a_topic_that_grew_would_turn_the_order_of_keys_round(here):
    grow(here.kafka, here.topic, 3)
    assert "has 3 partitions, and had 2" in why(here)
    leave(here, 3, 0)


def test_e17_a_topic_that_grows_beside_a_transaction_gets_nothing_of_it(here, monkeypatch):
    before, send = read_topic(here.kafka, here.topic), SinkWriter.send

    def sent_as_it_grows(writer, records):
        grow(here.kafka, here.topic, 3)
        while writer.partitions() < 3:  # until the client has heard of it
            pass
        return send(writer, records)

    monkeypatch.setattr(SinkWriter, "send", sent_as_it_grows)
    here.change(*((each, 3) for each in "abcdefgh"))
    assert "has 3 partitions, and had 2" in why(here)
    assert read_topic(here.kafka, here.topic) == before | {2: []}
    monkeypatch.undo()
    leave(here, 3, 8)


def test_e17_a_definition_that_names_another_topic_goes_there_by_a_decision(here, topic):
    other = Sending(here.dsn, here.kafka, sent_to(topic(partitions=1)))
    assert f"names the topic {other.topic}, and {here.topic} was written" in why(other)
    leave(other, 0, 3)
    assert other.wrong() == []
    ((kind, who, number),) = here.ask(
        "select kind, who, detail ->> 'number' from lockstep.decision where kind = 'restart-relay'"
    )
    assert (kind, who, number) == ("restart-relay", "me@here", "0")


def test_e21_a_restart_at_a_number_that_is_not_there_is_refused(here):
    for number in (-1, 4):
        with pytest.raises(Refusal, match=r"has the changes \[0, 3\)"):
            restart(here.at, here.pipeline, here.target, "me", number, ME)


def test_e16_another_relay_is_busy_and_one_that_ended_is_not_waited_for(here):
    with transaction(here.at.conn, PLANNER) as cur:
        assert relays.hold(cur, "public.orders", "somebody else", 60) is None
    report = here.relay()
    assert isinstance(report.stopped, Busy)
    assert "somebody else sends its changes" in report.stopped.reason
    host, _, _, *place = this_owner().split("/")
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("update lockstep.relay set held_by = %s", ("/".join([host, "1", "0", *place]),))
    assert here.relay().stopped is None


def test_e16_a_relay_whose_token_is_old_writes_nothing_more(here):
    here.change(("a", 3))
    with transaction(here.at.conn, PLANNER) as cur:
        old = relays.draw_token(cur, "public.orders", "me")
        relays.draw_token(cur, "public.orders", "another")
    for move in (lambda cur: relays.intend(cur, "public.orders", old, 4, 60),
                 lambda cur: relays.confirm_sent(cur, "public.orders", old, 4)):  # fmt: skip
        with pytest.raises(Superseded, match="a later relay has taken over"), transaction(here.at.conn, PLANNER) as cur:
            move(cur)
    assert here.knows() == (3, None)


def test_e15_what_is_not_sent_is_not_trimmed(here, postgres):
    here.change(("a", 3))
    superuser(here, postgres, AGE)
    assert trim_feeds(here.at.conn) == (3, [])
    assert here.ask("select kept_from, next_number from lockstep.feed") == [(3, 4)]
    assert here.relay().sent == 1
    assert trim_feeds(here.at.conn) == (1, [])


def test_e21_a_restart_waits_for_a_trim_and_is_refused_below_what_it_leaves(here, postgres):
    superuser(here, postgres, AGE)
    with ThreadPoolExecutor(1) as pool, closing(connect(here.dsn)) as other:
        with transaction(other, PLANNER) as cur:
            assert trim(cur, "public.orders", 100) == 3
            restarted = pool.submit(restart, here.at, here.pipeline, here.target, "me", 0, ME)
            assert wait([restarted], timeout=2).not_done == {restarted}
        with pytest.raises(Refusal, match=r"has the changes \[3, 3\), 0 is asked for"):
            restarted.result(60)
    assert here.ask("select r.confirmed, f.kept_from from lockstep.relay r join lockstep.feed f using (target)") == [
        (3, 3)
    ]
    assert here.relay().stopped is None


def test_e15_a_relay_that_is_made_beside_a_trim_begins_at_what_is_kept(here, postgres):
    superuser(here, postgres, f"delete from lockstep.relay; {AGE}")
    with ThreadPoolExecutor(1) as pool, closing(connect(here.dsn)) as other:
        with transaction(other, PLANNER) as cur:
            assert trim(cur, "public.orders", 100) == 3
            made = pool.submit(make_again, here)
            wait([made], timeout=2)
        made.result(60)
    assert here.ask("select began_at, confirmed from lockstep.relay") == [(3, 3)]


def test_e18_a_relay_that_finds_fewer_changes_than_numbers_sends_none_of_them(here, postgres):
    here.change(("a", 3), ("b", 3))
    here.change(("c", 3))
    superuser(
        here,
        postgres,
        """delete from lockstep_feed.public_orders i using lockstep.change_set s
        where s.change_set_id = i._change_set and s.first_number + i._ordinal_in_set = 4""",
    )
    assert "1 of the changes [3, 6) are not there" in why(here)
    assert here.knows()[0] == 3
    leave(here, 5, 1)


def test_a_relay_sends_no_change_behind_a_later_one(here, kafka, monkeypatch):
    before = read_topic(kafka, here.topic)
    here.change(("a", 3))
    here.change(("b", 3))
    turned = outgoing.Q["sets"].replace("order by s.first_number offset 0", "order by s.first_number desc offset 0")
    monkeypatch.setitem(outgoing.Q, "sets", turned)
    report = here.relay()
    assert isinstance(report.stopped, Blocked)
    assert "change 3 was read behind change 4" in report.stopped.reason
    assert (report.sent, here.knows()[0], read_topic(kafka, here.topic)) == (0, 3, before)
    monkeypatch.undo()
    assert here.relay().sent == 2


def test_a_change_that_is_too_large_is_named_and_nothing_is_skipped(database, kafka, topic):
    here = Sending(database, kafka, sent_to(topic(partitions=1, max_message_bytes=2_000)))
    here.make()
    here.change(("a", 1), ("b" * 3_000, 1), ("c", 1))
    report = here.relay()
    assert isinstance(report.stopped, Blocked)
    assert f"change 1 is larger than a record may be on {here.topic}" in report.stopped.reason
    assert f"raise max.message.bytes of {here.topic}" in report.stopped.next_command
    assert read_topic(kafka, here.topic) == {0: []}
    assert here.knows()[0] == 0


def test_small_changes_fit_a_topic_that_takes_small_batches(database, kafka, topic):
    here = Sending(database, kafka, sent_to(topic(partitions=1, max_message_bytes=2_000)))
    here.make()
    here.change(*((f"k{n}" * 20, n) for n in range(200)))
    assert here.relay().sent == 200
    assert here.wrong() == []


def test_a_topic_that_takes_larger_batches_than_the_client_makes_gets_its_changes(database, kafka, topic):
    here = Sending(database, kafka, sent_to(topic(partitions=1, max_message_bytes=2**31 - 1)))
    here.make()
    here.change(("a", 1))
    assert here.relay().sent == 1
    assert here.wrong() == []


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        (lambda: Topic("a b"), "is no topic"),
        (lambda: Topic("a", shape="rows"), "shape is 'rows'"),
        (lambda: Topic("a", partitions=0), "partitions is 0"),
        (lambda: Feed(to="a"), "to is 'a'"),  # type: ignore[arg-type]
        (lambda: pipeline_to("orders.v1"), "is the topic that the pipeline reads"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_at_birth(topic, words):
    with pytest.raises(Refusal, match=words):
        topic()


def test_a_topic_cannot_be_taken_out_of_a_definition_without_a_word(here):
    without = Pipeline("orders", "orders.v1", Json("id string"), Upsert("public.orders", key=("id",), feed=Feed()))
    with pytest.raises(Refusal, match=f"is sent to {here.topic}"), transaction(here.at.conn, OWNER) as cur:
        make_feeds(cur, without)


def pipeline_to(topic: str) -> Pipeline:
    return sent_to(topic)
