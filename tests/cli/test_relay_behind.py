"""Tests that a run ends with the relay, and that commands tell what of a feed waits to be sent."""

from __future__ import annotations

import json

import pytest

from feed.sends import Sends
from support.oracles.exposed import values
from support.servers.servers import make_topic


@pytest.fixture
def sends(lockstep, drill, topic, monkeypatch):
    """Returns the drill, which sends its rows, and whose batches the command line does without Spark."""
    here = Sends(drill)
    here.into(f"{topic(partitions=1)}-sink", more=", partitions=2")
    lockstep.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))
    for door in ("planning", "replaying", "running"):
        monkeypatch.setattr(f"lockstep.cli.batches.{door}.engine_for", lambda *_: here.engine)
    yield here
    here.at.close()


def stands(lockstep) -> dict:
    (feed,) = lockstep("status", "drill", "--json").document["feeds"]
    return feed


def test_a_run_ends_with_the_relay_also_when_nothing_is_to_be_read(lockstep, sends):
    assert f"the topic {sends.sink} is made" in lockstep("migrate", "drill").out
    document = lockstep("run", "drill", "--json").document
    assert (document["rows_written"], document["sent"], document["warnings"]) == (150, 150, [])
    assert lockstep("run", "drill", "--json").document["sent"] == 0
    assert sorted(row["n"] for row in sends.sent()) == list(range(150))


def test_an_idle_run_sends_what_an_earlier_one_left(lockstep, sends, produce):
    lockstep("migrate", "drill")
    sends.drain()
    assert "  sent: 150 changes\n" in lockstep("run", "drill").out
    produce(sends.drill.topic, [("k", json.dumps({"id": "r150", "n": 150}))])
    document = lockstep("run", "drill", "--until-idle", "--json").document
    assert (document["decision"], document["sent"]) == ("idle", 1)


def test_a_relay_that_stops_is_a_warning_and_the_batch_is_committed(lockstep, sends):
    said = lockstep("run", "drill", "--json")
    (warning,) = said.document["warnings"]
    assert (said.code, said.document["state"], said.document["sent"]) == (0, "committed", 0)
    assert (warning["kind"], warning["topic"]) == ("relay_stopped", sends.sink)
    assert f"topic {sends.sink} is not on the broker" in warning["message"]
    make_topic(sends.drill.kafka, sends.sink, 2)
    assert lockstep("run", "drill", "--json").document["sent"] == 150


def test_what_waits_is_told_by_status_and_metrics(lockstep, sends):
    lockstep("migrate", "drill")
    sends.drain()
    feed = stands(lockstep)
    assert (feed["topic"], feed["confirmed"], feed["behind"], feed["relay"]) == (sends.sink, 0, 150, None)
    assert 0 < feed["behind_seconds"] < 600
    assert f"    to {sends.sink}: 0 are sent, 150 wait, the oldest for " in lockstep("status", "drill").out
    told = values(lockstep("metrics").out)
    assert told["lockstep_relay_behind", "drill", sends.table] == 150
    assert told["lockstep_relay_behind_seconds", "drill", sends.table] > 0
    sends.relay()
    feed = stands(lockstep)
    assert (feed["confirmed"], feed["behind"], feed["behind_seconds"]) == (150, 0, 0)
    assert f"    to {sends.sink}: 150 are sent, 0 wait\n" in lockstep("status", "drill").out
    told = values(lockstep("metrics").out)
    assert told["lockstep_relay_behind", "drill", sends.table] == 0


@pytest.mark.usefixtures("sends")
def test_what_a_send_cannot_do_is_one_line_with_the_next_command(lockstep):
    lockstep("migrate", "drill")
    lockstep("run", "drill")
    refused = [
        (("clone", "drill", "--to", "copy"), "drill: it sends to", "lockstep new copy --topic"),
        (
            ("erase", "drill", "--key", "r1", "--column", "id", "--reason", "x"),
            "erase does not reach a topic",
            "lockstep reap",
        ),
        (("blame", "drill", "--key", "r1"), "its rows have no key", "lockstep lineage drill"),
    ]
    for command, told, remedy in refused:
        said = lockstep(*command)
        assert said.code != 0
        assert told in said.err
        assert remedy in said.err
        assert said.err.count("\n") <= 2, said.err


def test_commands_treat_a_send_as_a_table_of_rows(lockstep, sends):
    lockstep("migrate", "drill")
    lockstep("run", "drill")
    assert "every check holds" in lockstep("verify", "drill", "--deep").out
    assert "no safe change is left to propose" in lockstep("migrate", "drill", "--propose").out
    (change,) = lockstep("changes", "drill", "--from", "0", "--limit", "1", "--json").document["changes"]
    assert (change["change"], change["before"]) == ("insert", None)
    source = change["key"]
    partition = sends.drill.ask("select partition from lockstep.stream where stream_id = %s", source["_stream"])[0][0]
    document = lockstep(
        "lineage", "drill", "--partition", str(partition), "--offset", str(source["_offset"]), "--json"
    ).document
    assert [(row["id"], row["n"]) for row in document["rows"]] == [(change["after"]["id"], change["after"]["n"])]
    (told,) = lockstep("batch", "1", "--json").document["change_sets"]
    assert (told["inserted"], told["updated"], told["deleted"]) == (150, 0, 0)
