"""Tests that `plan --all` says of each pipeline what its own plan says, and asks Kafka and Postgres once."""

from __future__ import annotations

import json

import pytest

from lockstep.adapters.kafka.broker import Broker
from lockstep.cli.exits import Exit
from lockstep.steps.fleet import look
from support.scenes.odd_logs import delete_records

DEFINITION = """
from lockstep import Append, Json, Limits, Pipeline, Topics
P = Pipeline("{name}", {topic!r}, Json("id string, n int"), Append("public.{table}"), limits=Limits(seconds=60{more}))
"""
TABLE = """create table if not exists public.{name} (id text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));
"""
ASKED_MORE = {"route", "warnings"}


def sent(produce, topic, count, partition=0):
    produce(topic, [("k", json.dumps({"id": f"r{n}", "n": n})) for n in range(count)], partition)


@pytest.fixture
def fleet(lockstep, database, kafka, topic, produce):
    """Returns `make(name)`, which writes a pipeline over a topic of two partitions. By default it has committed 5 records."""
    lockstep.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA=kafka, LOCKSTEP_PIPELINES=str(lockstep.pipelines))

    def make(name, of=None, *, runs=True, table=None, more="", records=5):
        source = of or topic(partitions=2)
        text = DEFINITION.format(name=name, topic=source, table=table or name, more=more)
        lockstep.define(name, init=text, target=TABLE.format(name=table or name))
        if of is None:
            sent(produce, source, records)
        if runs:
            assert lockstep("migrate", name).code == Exit.DONE
            assert lockstep("run", name, "--until-idle").code == Exit.DONE
        return source

    return make


@pytest.fixture
def planned_alone(monkeypatch):
    """Returns the pipelines about which one look did not tell all."""
    found, alone = [], look.plan

    def plan(conn, broker, folder, caller, now, *, dry_run):
        found.append(folder.pipeline.name)
        return alone(conn, broker, folder, caller, now, dry_run=dry_run)

    monkeypatch.setattr(look, "plan", plan)
    return found


def test_each_pipeline_is_told_what_its_own_dry_run_says(fleet, lockstep, produce, kafka, ledger_rows, planned_alone):
    lost = fleet("lost")
    sent(produce, lost, 4)
    delete_records(kafka, lost, 7)
    sent(produce, fleet("busy"), 3)
    assert lockstep("plan", "busy").code == Exit.DONE
    sent(produce, fleet("waits", more=", records=2"), 3)
    sent(produce, fleet("paused"), 3)
    assert lockstep("pause", "paused", "--reason", "a holiday").code == Exit.DONE
    fleet("idle")
    fleet("again", of="a-topic-that-is-not-there", runs=False)
    fleet("never", runs=False)
    both = (fleet("changed"), fleet("one_of_two"))
    fleet("changed", of=both[0], runs=False, table="another")
    fleet("two", of=both)
    sent(produce, both[1], 2, 1)
    fleet("gone")
    assert lockstep("forget", "gone", "--reason", "over").code == Exit.DONE
    lockstep.define("broken", init="P = 1\n")
    before = ledger_rows()

    said = lockstep("plan", "--all", "--json")

    told = {each["pipeline"]: each for each in said.document["pipelines"]}
    names = sorted(place.name for place in lockstep.pipelines.iterdir() if place.name != "gone")
    assert list(told) == names
    for name in names:
        alone = lockstep("plan", name, "--dry-run", "--json")
        wanted = {part: value for part, value in alone.document.items() if part not in ASKED_MORE}
        assert told[name] == {"pipeline": name, **wanted}, name
    decisions = {name: each.get("decision", "refused") for name, each in told.items()}
    assert decisions == {
        "again": "refused",
        "broken": "refused",
        "busy": "resume",
        "changed": "blocked",
        "idle": "idle",
        "lost": "blocked",
        "never": "start",
        "one_of_two": "start",
        "paused": "idle",
        "two": "start",
        "waits": "start",
    }
    assert told["waits"]["because"]["offsets"] == 2
    assert told["lost"]["next"].startswith("lockstep accept-loss lost --partition 0 --from 5 --until 7")
    assert planned_alone == ["again", "busy", "changed", "lost", "never"]
    assert ledger_rows() == before
    assert said.code == Exit.BLOCKED


def test_idle_pipelines_cost_one_question_each(fleet, lockstep, monkeypatch, planned_alone):
    for name in ("one", "two"):
        fleet(name)
    asked = []
    for question in ("_identities", "_answers", "_describe", "topic_names"):
        real = getattr(Broker, question)
        monkeypatch.setattr(
            Broker,
            question,
            lambda self, *args, _real=real, _name=question, **how: (asked.append(_name), _real(self, *args, **how))[1],
        )

    said = lockstep("plan", "--all")

    assert (said.code, said.out) == (Exit.DONE, "2 of 2 pipelines have nothing to do\n")
    assert asked == ["_identities", "_answers"]
    assert planned_alone == []


def test_a_person_reads_who_has_something_and_what_blocks_the_others(fleet, lockstep, produce):
    sent(produce, fleet("mine"), 3)
    fleet("theirs", runs=False, table="mine")
    fleet("idle", of=fleet("busy"), table="of_idle")
    sent(produce, fleet("busy_now"), 3)
    assert lockstep("plan", "busy_now").code == Exit.DONE
    theirs = lockstep("plan", "theirs", "--dry-run")
    assert theirs.code == Exit.BLOCKED

    said = lockstep("plan", "--all")

    reason, _, following = theirs.err.strip().partition("  Next: ")
    assert said.out.splitlines() == [
        "busy_now: resume: batch 5",
        "mine: start, 3 offsets of 1 partition",
        f"theirs: blocked: {reason}  Next: {following}",
        "2 of 5 pipelines have nothing to do",
    ]
    assert (said.err, said.code) == (theirs.err, Exit.BLOCKED)
