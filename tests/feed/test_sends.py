"""Tests that a pipeline sends each row once to a topic, and takes nothing back that was sent (E20)."""

from __future__ import annotations

import json

import psycopg2
import pytest

from feed.sending import read_topic
from feed.sends import Sends
from lockstep.adapters.processes import this_owner
from lockstep.core.errors import BadDefinition
from lockstep.core.planning.decisions import Blocked
from lockstep.steps.changes.decisions import abandon
from lockstep.steps.feed.relay import relay
from lockstep.steps.upkeep.trim_feeds import trim_feeds
from support.oracles.folded import not_folded
from support.scenes.here import ME


@pytest.fixture
def sends(drill, topic):
    here = Sends(drill)
    here.into(topic(partitions=2))
    return here


def rows(*numbers: int) -> list[dict]:
    return [{"id": f"r{n}", "n": n} for n in numbers]


def only(*numbers: int, rejects: bool = False):
    """Returns code that takes these records, and filters or rejects the others."""

    def code(value: dict) -> dict | None:
        if value["n"] in numbers:
            return value
        if rejects:
            raise ValueError("not yet")
        return None

    return code


def test_e20_each_row_is_sent_once_under_its_key_with_the_record_that_made_it(sends):
    sends.drain()
    assert sends.relay() == 150
    assert sends.relay() == 0

    assert sorted(sends.sent(), key=lambda row: row["n"]) == rows(*range(150))
    records = [record for part in read_topic(sends.drill.kafka, sends.sink).values() for record in part]
    assert {(key.decode(), json.loads(value)["id"]) for key, value, _ in records} == {
        (f"r{n}", f"r{n}") for n in range(150)
    }
    assert {headers["lockstep.op"] for _, _, headers in records} == {"insert"}
    sources = {headers["lockstep.source"] for _, _, headers in records}
    assert len(sources) == 150
    assert all(source.startswith(f"{sends.drill.topic}-") for source in sources)
    assert sends.wrong() == []


def test_e20_a_compacted_topic_that_takes_no_record_without_a_key_is_told_as_that(drill, topic):
    here = Sends(drill)
    here.into(topic(partitions=1, cleanup_policy="compact"), key="None")
    here.drain()

    stopped = relay(here.at, here.folder.pipeline, here.folder.pipeline.first, this_owner()).stopped

    assert isinstance(stopped, Blocked)
    assert (
        f"{here.sink} takes no such record as change 0, as a compacted one takes none without a key" in stopped.reason
    )
    assert stopped.next_command == "lockstep doctor"


def test_e20_without_a_key_records_have_none(drill, topic):
    here = Sends(drill)
    here.into(topic(partitions=2), key="None")
    here.drain()
    assert here.relay() == 150
    records = [record for part in read_topic(here.drill.kafka, here.sink).values() for record in part]
    assert {key for key, _, _ in records} == {None}
    assert sorted(json.loads(value)["n"] for _, value, _ in records) == list(range(150))


def test_e20_a_fill_sends(sends, produce):
    sends.rewrite("records=200", "records=60")
    sends.run()
    sends.skip()
    produce(sends.drill.topic, [("k", json.dumps({"id": "r150", "n": 150}))])
    sends.drain()
    assert sends.relay() == 61
    sends.fill()
    assert sends.relay() == 90
    assert sorted(row["n"] for row in sends.sent()) == list(range(151))
    assert sends.wrong() == []


def test_e20_a_replay_sends_records_that_were_never_sent(sends):
    sends.code = only(*range(100), rejects=True)
    sends.rewrite("limits=", "max_reject_share=1.0, limits=")
    sends.drain()
    assert sends.relay() == 100
    sends.code = only(*range(120))

    sends.replay()

    assert sends.relay() == 20
    assert sorted(row["n"] for row in sends.sent()) == list(range(120))
    assert len(sends.held()) == 120
    assert not_folded(sends.drill.ask, sends.table) == []
    assert sends.wrong() == []
    assert sends.replay()[-1].changes == {sends.table: 0}, "unchanged code sends nothing"
    assert sends.relay() == 0


CHANGES = [
    (lambda value: value | {"n": -1} if value["n"] < 3 else value, "3 rows would be others, 0 would be gone"),
    (only(*range(145)), "0 rows would be others, 5 would be gone"),
]


@pytest.mark.parametrize(("code", "told"), CHANGES, ids=["changes", "unsays"])
def test_e20_a_replay_that_would_change_or_unsay_what_was_sent_is_refused_with_counts(sends, code, told):
    sends.drain()
    assert sends.relay() == 150
    before = sends.held(), sends.drill.ask("select next_number, last_seq from lockstep.feed")
    sends.code = code

    with pytest.raises(Exception, match=told) as refused:
        sends.replay()

    assert sends.sink in str(refused.value)
    next_command = getattr(refused.value, "next_command", "")  # the database refuses as well, and knows of none
    assert next_command.startswith("lockstep abandon ")
    assert (sends.held(), sends.drill.ask("select next_number, last_seq from lockstep.feed")) == before
    assert sends.relay() == 0
    abandon(sends.at.conn, int(next_command.split()[2]), ME)
    sends.code = lambda value: value
    assert sends.wrong() == []


def test_e20_rows_are_trimmed_with_their_changes_once_they_are_sent_and_never_sent_again(sends, postgres):
    sends.drain()
    sends.age(postgres)
    assert trim_feeds(sends.at.conn) == (0, []), "nothing is sent yet"
    assert sends.relay() == 150
    assert trim_feeds(sends.at.conn) == (150, [])
    assert sends.held() == []
    assert sends.wrong() == []
    left_out = [check.left_out for check in sends.checks()]
    assert any("sent rows are trimmed" in each for each in left_out)

    with pytest.raises(Exception, match="150 would be sent again"):
        sends.replay()

    assert sends.held() == []
    assert sends.relay() == 0


def test_e20_a_reject_beside_rows_that_are_trimmed_is_sent_when_it_passes(sends, postgres):
    sends.code = only(*range(100), rejects=True)
    sends.rewrite("limits=", "max_reject_share=1.0, limits=")
    sends.drain()
    assert sends.relay() == 100
    sends.age(postgres)
    assert trim_feeds(sends.at.conn) == (100, [])
    ((stream, offset, partition),) = sends.drill.ask(
        'select r.stream_id, r."offset", s.partition from lockstep.reject r join lockstep.stream s using (stream_id)'
        " where (convert_from(value, 'UTF8')::json ->> 'n')::int = 120"
    )
    trimmed = "select offsets @> %s::bigint from lockstep.trimmed where stream_id = %s"
    assert sends.drill.ask(trimmed % (offset, stream)) == [(False,)]
    sends.code = only(*range(100), 120, rejects=True)

    sends.replay(f"{partition}:{offset}", f"{partition}:{offset + 1}")

    assert sends.relay() == 1
    assert sorted(row["n"] for row in sends.sent()) == [*range(100), 120]
    assert len(sends.held()) == 1
    assert sends.wrong() == []
    with pytest.raises(Exception, match="would be sent again"):
        sends.replay()


def test_e20_offsets_are_trimmed_whole_where_rejects_have_made_too_many_ranges(sends, postgres):
    sends.code = only(*range(1, 150, 2), rejects=True)
    sends.rewrite("limits=", "max_reject_share=1.0, limits=")
    sends.drain()
    sends.relay()
    sends.age(postgres)
    sends.spoil(
        postgres,
        "insert into lockstep.trimmed select f.target, s.stream_id, range_agg(int8range(10000000 + 2 * n, 10000001 + 2 * n))"
        " from lockstep.feed f, lockstep.stream s, generate_series(1, 9999) n group by 1, 2",
    )
    assert trim_feeds(sends.at.conn) == (75, [])
    left = 'select count(*) from lockstep.reject r join lockstep.trimmed t using (stream_id) where not t.offsets @> r."offset"'
    assert sends.drill.ask(left) == [(0,)]


def test_e20_upkeep_alone_takes_rows_away_that_were_sent(sends):
    sends.run()
    for statement in ("delete from {}", "update {} set n = 0", "truncate {}"):
        with pytest.raises(psycopg2.Error, match="only_by_commit"):
            sends.drill.ask(statement.format(sends.table) + " returning 1" * (not statement.startswith("truncate")))


def test_a_key_that_no_row_has_is_refused_in_one_line(drill, topic):
    here = Sends(drill)
    with pytest.raises(
        BadDefinition, match=r"drill: target.key: the rows for .* have no column user; there are: id, n"
    ):
        here.into(topic(), key='("user",)')
