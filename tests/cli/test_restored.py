from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.kafka.group import mirrored
from lockstep.core.offsets import TopicPartition
from support.scenes.command_line import assert_away, assert_refused, assert_wrong_call
from support.servers.timelines import Timelines, copied

if TYPE_CHECKING:
    from support.scenes.here import Here

ALL = list(range(180))


@pytest.fixture
def failed_over(here, lockstep, produce, postgres):
    """Makes a batch in both timelines, and one more in the lost timeline alone. The command line asks the survivor."""
    here.drain()
    with copied(postgres, here.drill.dsn) as survivor:
        both = Timelines(here.drill, survivor)
        both.lost.code = lambda value: value
        produce(here.drill.topic, [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(150, 180)])
        both.lost.drain()
        lockstep.environ(LOCKSTEP_DSN=survivor)
        yield both
        both.end()


def positions(here: Here) -> dict[int, int]:
    return dict(here.drill.ask("select partition, position from lockstep.stream order by 1"))


def shown(here: Here) -> dict[int, int]:
    at = [TopicPartition(here.drill.topic, partition) for partition in range(3)]
    found = mirrored(Broker(here.drill.kafka), "lockstep-drill", at)
    return {where.partition: offset for where, offset in found.items()}


def test_a_preview_names_what_was_told_and_is_gone_and_changes_nothing(lockstep, failed_over):
    gone, kept = positions(failed_over.lost), positions(failed_over.survivor)
    assert shown(failed_over.lost) == gone

    document = lockstep("restored", "drill", "--preview", "--json").document

    assert {r["partition"]: (r["from_offset"], r["until_offset"]) for r in document["told"]} == {
        p: (kept[p], gone[p]) for p in gone if gone[p] > kept[p]
    }
    assert sum(r["until_offset"] - r["from_offset"] for r in document["told"]) == 30
    assert document["recorded"] is False
    assert "lockstep run drill reads these records again" in document["needs"][0]
    assert failed_over.survivor.drill.ask("select count(*) from lockstep.decision") == [(0,)]
    assert shown(failed_over.lost) == gone


def test_it_is_recorded_draws_past_what_was_seen_and_every_record_is_there_once(lockstep, failed_over):
    kept = positions(failed_over.survivor)
    said = lockstep("restored", "drill", "--reason", "the primary burnt", "--past-token", "5000")
    assert said.code == 0, said.err
    assert said.out.count("gone: ") == len({p for p in kept if positions(failed_over.lost)[p] > kept[p]})

    decided = failed_over.survivor.drill.ask("select kind, why, detail from lockstep.decision")
    assert [(kind, why) for kind, why, _ in decided] == [("restored", "the primary burnt")]
    detail = decided[0][2]
    assert detail["past"]["token"] == 5000
    assert sum(r["until_offset"] - r["from_offset"] for r in detail["told"]) == 30
    assert shown(failed_over.survivor) == kept, "lag tools show the ledger's positions again"

    failed_over.survivor.drain()
    assert failed_over.values() == ALL
    ((token,),) = failed_over.survivor.drill.ask("select max(token) from lockstep.attempt")
    assert token > 6000
    assert failed_over.survivor.drill.violations() == []
    again = lockstep("restored", "drill", "--preview", "--json").document
    assert again["told"] == []
    assert "lockstep run drill goes on at the ledger's positions" in again["needs"][0], "no record is read again"


def test_numbers_never_go_back_when_it_is_said_twice(lockstep, failed_over):
    for past in ("9000", "0"):
        assert lockstep("restored", "drill", "--reason", "r", "--past-token", past).code == 0
    (token,) = as_owner(failed_over, "select last_value from lockstep.token_seq")
    assert token >= 10_000


def as_owner(both: Timelines, query: str) -> tuple:
    with closing(psycopg2.connect(both.survivor.drill.dsn)) as conn, conn.cursor() as cur:
        cur.execute(f"set role lockstep_owner; {query}")
        return cur.fetchone()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("restored", "drill"), "--reason"),
        (("restored", "drill", "--reason", "  "), "a reason in words"),
        (("restored", "drill", "--reason", "r", "--past-token", "-1"), "--past-token"),
        (("restored", "drill", "--reason", "r", "--past-token", "many"), "--past-token"),
        (("restored", "drill", "--reason", "r", "--past-token", str(10**16)), "--past-token"),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, tuple) else "",
)
def test_a_wrong_call_is_said_in_a_line(lockstep, call, words):
    assert_wrong_call(lockstep(*call), words)


@pytest.mark.usefixtures("here")
def test_a_pipeline_that_is_not_there_is_refused(lockstep):
    assert_refused(lockstep("restored", "nothing", "--reason", "r"), "nothing")


@pytest.mark.usefixtures("here")
def test_a_pipeline_that_was_never_planned_is_refused(lockstep):
    assert_refused(lockstep("restored", "drill", "--reason", "r"), "no open stream", "Next: lockstep plan drill")


def test_another_log_is_refused_for_its_offsets_mean_nothing(lockstep, here):
    here.drain()
    with closing(psycopg2.connect(here.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner; alter table lockstep.stream disable trigger closed_once")
        cur.execute("update lockstep.stream set topic_id = 'another'")
    assert_refused(lockstep("restored", "drill", "--reason", "r"), "the log is not the same", "lockstep retire")
    assert here.drill.ask("select count(*) from lockstep.decision") == [(0,)]


def test_a_broker_that_is_away_is_refused_for_then_nothing_is_known(lockstep, here, monkeypatch):
    here.drain()
    monkeypatch.setattr("lockstep.adapters.kafka.client.ANSWER_SECONDS", 0.3)
    lockstep.environ(LOCKSTEP_KAFKA="127.0.0.1:1")
    assert_away(lockstep("restored", "drill", "--reason", "r"), "does not answer")
    assert here.drill.ask("select count(*) from lockstep.decision") == [(0,)]


def test_a_store_whose_address_is_missing_is_refused(lockstep, here):
    here.drain()
    here.rewrite("limits=", 'guarantee=AtLeastOnce(), store=Postgres("NOWHERE"), limits=')
    here.rewrite("import Append,", "import AtLeastOnce, Postgres, Append,")
    assert_refused(lockstep("restored", "drill", "--reason", "r"), "LOCKSTEP_STORE_NOWHERE is not set")
