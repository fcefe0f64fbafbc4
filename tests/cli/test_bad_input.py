"""Tests wrong calls and surroundings: one clear line, an exit code, and nothing written."""

from __future__ import annotations

import pytest

from lockstep.adapters.kafka import client as kafka
from lockstep.context.systems import configured_registry
from lockstep.core.errors import Refusal
from support.scenes.command_line import assert_away, assert_refused, assert_wrong_call

NOWHERE = "host=127.0.0.1 port=1 user=lockstep dbname=lockstep"
COMMANDS = [
    ("status", "orders"),
    ("status",),
    ("batches", "orders"),
    ("batch", "1"),
    ("lineage", "orders", "--partition", "0", "--offset", "0"),
    ("blame", "orders", "--key", "x"),
    ("holes", "orders"),
    ("pause", "orders"),
    ("unpause", "orders"),
    ("abandon", "1", "--reason", "r"),
    ("accept-loss", "orders", "--partition", "0", "--from", "0", "--until", "1", "--reason", "r"),
    ("retire", "orders", "--reason", "r"),
    ("migrate", "orders"),
    ("reap",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_says_where_the_database_would_be_named(lockstep, command):
    lockstep.define()
    assert_refused(lockstep(*command), "LOCKSTEP_DSN is not set", "Next: lockstep dev up")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_says_when_the_database_is_away(lockstep, command):
    lockstep.define()
    lockstep.environ(LOCKSTEP_DSN=NOWHERE, LOCKSTEP_KAFKA="127.0.0.1:1")
    assert_away(lockstep(*command), "the ledger's database does not answer", "Next: look at LOCKSTEP_DSN")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_says_when_the_ledger_is_not_migrated(lockstep, empty_database, command):
    lockstep.define()
    lockstep.environ(LOCKSTEP_DSN=empty_database, LOCKSTEP_KAFKA="127.0.0.1:1")
    assert_refused(lockstep(*command), "the ledger is at version 0", "Next: lockstep migrate")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("batch", "77"), ["the ledger has no batch 77"]),
        (("abandon", "77", "--reason", "r"), ["the ledger has no batch 77"]),
        (
            ("lineage", "orders", "--partition", "0", "--offset", "0"),
            ["partition 0 has no stream; there are: none yet"],
        ),
        (
            ("blame", "orders", "--key", "x"),
            ["the target public.orders is not migrated", "Next: lockstep migrate orders"],
        ),
    ],
    ids=lambda case: case[0],
)
def test_what_is_not_in_the_ledger_is_said_and_nothing_is_written(lockstep, database, ledger_rows, command, words):
    lockstep.define()
    lockstep.environ(LOCKSTEP_DSN=database)
    before = ledger_rows()
    assert_refused(lockstep(*command), *words)
    assert ledger_rows() == before


@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[1], COMMANDS[6], COMMANDS[10]], ids=" ".join)
def test_a_broker_that_is_away_is_said_and_nothing_is_written(lockstep, database, ledger_rows, monkeypatch, command):
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 0.3)
    lockstep.define()
    lockstep.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA="127.0.0.1:1")
    before = ledger_rows()
    assert_away(
        lockstep(*command), "Kafka at 127.0.0.1:1 does not answer", "Connection refused", "look at LOCKSTEP_KAFKA;"
    )
    assert ledger_rows() == before


@pytest.mark.parametrize("command", [("status", "orders"), ("retire", "orders", "--reason", "r")], ids=" ".join)
def test_a_missing_broker_address_is_said(lockstep, database, command):
    lockstep.define()
    lockstep.environ(LOCKSTEP_DSN=database)
    assert_refused(lockstep(*command), "no Kafka broker: LOCKSTEP_KAFKA is not set", "Next: lockstep dev up")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ('{"a": ', "no JSON"),
        ("/nowhere.json", "neither a JSON object nor the path of a file"),
        ('{"a": {"b": 1}}', "one JSON object of options and plain values"),
    ],
)
def test_bad_client_options_are_named_without_being_repeated(lockstep, database, options, words):
    lockstep.define()
    lockstep.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA="127.0.0.1:1", LOCKSTEP_KAFKA_CONFIG=options)
    said = lockstep("status", "orders")
    assert_refused(said, "LOCKSTEP_KAFKA_CONFIG: ", words)
    assert '{"a"' not in said.err


@pytest.mark.parametrize(
    ("address", "options", "words"),
    [
        ("registry:8081", "{}", "LOCKSTEP_REGISTRY is no address"),
        ("http://r", '{"a": ', "LOCKSTEP_REGISTRY_CONFIG: no JSON"),
        ("http://r", '{"basic.auth.user.info": "canary"}', "basic.auth.user.info: it must be USER:PASSWORD"),
        ("http://r", '{"ssl.ca.location": "/nowhere.pem"}', "LOCKSTEP_REGISTRY_CONFIG: /nowhere.pem cannot be read"),
    ],
)
def test_bad_options_of_a_registry_are_named_without_being_repeated(lockstep, address, options, words):
    lockstep.environ(LOCKSTEP_REGISTRY=address, LOCKSTEP_REGISTRY_CONFIG=options)
    with pytest.raises(Refusal, match=words) as caught:
        configured_registry()
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("nope",), ["nope"]),
        (("status", "orders", "--nope"), ["--nope"]),
        (("batch",), ["BATCH"]),
        (("batch", "seven"), ["'BATCH'"]),
        (("batch", "0"), ["greater than or equal to 1"]),
        (("batches", "orders", "--last", "0"), ["greater than or equal to 1"]),
        (("lineage", "orders", "--partition", "0"), ["--offset"]),
        (("lineage", "orders", "--partition", "-1", "--offset", "0"), ["'--partition'"]),
        (("lineage", "orders", "--partition", "0", "--offset", str(2**63)), ["'--offset'"]),
        (("blame", "orders"), ["--key"]),
        (("abandon", "1"), ["--reason"]),
        (("abandon", "1", "--reason", " "), ["a reason in words"]),
        (("pause", "orders", "--reason", ""), ["a reason in words"]),
        (
            ("accept-loss", "orders", "--partition", "0", "--from", "5", "--until", "5", "--reason", "r"),
            ["[5, 5) holds no offset"],
        ),
        (("new", "orders"), ["--topic"]),
        (("run", "orders", "--key", "k", "--until-idle"), ["--until-idle"]),
    ],
    ids=lambda case: " ".join(case[:6]),
)
def test_a_wrong_call_ends_with_2_and_a_few_lines(lockstep, command, words):
    lockstep.define()
    assert_wrong_call(lockstep(*command), *words)


def test_with_json_a_refusal_is_a_document_too(lockstep):
    lockstep.define()
    said = lockstep("batches", "nope", "--json")
    assert said.code == 1
    assert said.err.count("\n") == 1
    assert said.document == {
        "error": "no pipeline 'nope'; there are: orders",
        "next": "lockstep new nope --topic TOPIC",
    }
