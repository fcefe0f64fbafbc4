"""Tests `replay`, `fill` and `skip` as a user calls them: announced, done, shown and refused."""

from __future__ import annotations

import pytest

from lockstep.cli.exits import Exit
from support.fakes.plain_engine import PlainEngine
from support.oracles.checker import check
from support.scenes.command_line import assert_refused, assert_wrong_call
from support.scenes.here import Here

RANGE = {"topic", "partition", "from_offset", "until_offset"}
DOCUMENT = {
    "pipeline",
    "lane",
    "request",
    "goes_on",
    "preview",
    "means",
    "windows",
    "decision",
    "reason",
}


@pytest.fixture
def factor():
    """Returns the number by which today's code multiplies `n`."""
    return {"n": 1}


@pytest.fixture
def drilled(lockstep, drill, monkeypatch, factor):
    """Returns the drill with its 150 records in three batches, and the command line over it, without Spark."""
    here = Here(drill)
    here.rewrite("records=200", "records=60")
    here.drain()
    here.at.close()
    lockstep.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))

    def engine(folder, at):
        return PlainEngine(folder, drill.kafka, at.dsn, lambda value: value | {"n": value["n"] * factor["n"]})

    monkeypatch.setattr("lockstep.cli.batches.replaying.engine_for", engine)
    return drill


def total(drill) -> int:
    ((n,),) = drill.ask("select sum(n) from public.drill")
    return n


def test_a_replay_tells_what_it_means_then_what_it_did(lockstep, drilled, factor):
    factor["n"] = 2
    before = total(drilled)

    document = lockstep("replay", "drill", "--from", "0:0", "--reason", "new code", "--json").document

    assert set(document) >= DOCUMENT | {"batches", "rows_written", "rows_rejected"}
    assert (document["decision"], document["lane"], document["goes_on"]) == ("done", "replay", False)
    assert "deleted" in document["means"] or "replaced" in document["means"]
    assert all(set(window) == RANGE and window["partition"] == 0 for window in document["windows"])
    assert document["rows_written"] == sum(w["until_offset"] - w["from_offset"] for w in document["windows"])
    assert total(drilled) > before
    assert check(drilled.dsn, drilled.kafka, "drill", table="public.drill") == []
    ((who, why),) = drilled.ask("select who, why from lockstep.request")
    assert "@" in who
    assert why == "new code"


def test_a_preview_shows_each_kind_of_difference_and_changes_nothing(lockstep, drilled, factor):
    factor["n"] = 2
    before = drilled.ask("select * from public.drill order by id")

    document = lockstep(
        "replay", "drill", "--from", "0:0", "--until", "1:1000", "--partition", "0", "--preview", "--json"
    )
    assert document.code == 1  # the bounds name two partitions: nothing in common
    said = lockstep("replay", "drill", "--partition", "0", "--preview", "--json").document

    difference = said["difference"]
    assert (difference["added"], difference["removed"], said["preview"]) == (0, 0, True)
    assert difference["changed"] > 0
    assert {sample["kind"] for sample in difference["samples"]} == {"changed"}
    assert difference["samples"][0]["after"]["n"] == 2 * difference["samples"][0]["before"]["n"]
    assert drilled.ask("select * from public.drill order by id") == before
    assert drilled.ask(
        "select count(*) from lockstep.commit c join lockstep.batch b using (batch_id) where lane <> 'live'"
    ) == [(0,)]


def test_a_preview_shows_decimals_to_the_last_digit(lockstep, drilled, factor, admin):
    assert drilled
    large = "12345678901234567890.0123456789"
    admin(f"alter table public.drill add column amount numeric(30,10) default {large}")
    factor["n"] = 2

    said = lockstep("replay", "drill", "--partition", "0", "--preview", "--json").document

    assert {(each["before"]["amount"], each["after"]["amount"]) for each in said["difference"]["samples"]} == {
        (large, large)
    }


def test_a_replay_of_one_batch_touches_that_batch(lockstep, drilled):
    (batch, _), *_ = drilled.committed()
    document = lockstep("replay", "drill", "--batch", str(batch), "--json").document
    assert document["decision"] == "done"
    assert len(document["batches"]) == 1
    assert drilled.ask("select count(*) from lockstep.coverage where batch_id = %s", batch) == [(0,)]


def test_what_was_skipped_is_filled_and_asked_again_there_is_nothing_left(lockstep, drilled, produce):
    produce(drilled.topic, [(f"k{i}", f'{{"id": "s{i}", "n": {i}}}') for i in range(30)])
    skipped = lockstep("skip", "drill", "--to", "latest", "--reason", "urgent", "--json").document
    assert skipped["changed"]
    assert sum(s["until_offset"] - s["from_offset"] for s in skipped["skipped"]) == 30

    filled = lockstep("fill", "drill", "--json").document
    again = lockstep("fill", "drill", "--json").document

    assert (filled["decision"], filled["rows_written"]) == ("done", 30)
    assert (again["decision"], again["request"], again["batches"]) == ("idle", None, [])
    assert drilled.ask("select count(*) from public.drill") == [(180,)]
    assert check(drilled.dsn, drilled.kafka, "drill", table="public.drill") == []


def test_a_fill_names_the_offsets_that_are_left_and_not_those_that_are_there(lockstep, drilled, produce):
    assert lockstep("skip", "drill", "--to", "latest", "--reason", "nothing waits").code == 0
    produce(drilled.topic, [("k", '{"id": "s", "n": 1}')] * 30, 0)
    assert lockstep("skip", "drill", "--to", "latest", "--reason", "urgent").code == 0
    ((begin, end),) = drilled.ask("select lower(offsets), upper(offsets) from lockstep.coverage where kind = 'skipped'")

    lines = lockstep("fill", "drill", "--preview").out.splitlines()

    assert begin > 0
    assert [line.split() for line in lines[1:3]] == [
        ["partition", "offsets"], [f"{drilled.topic}-0", f"[{begin},", f"{end})"]
    ]  # fmt: skip
    assert "30 added" in lines[3]


def test_skipping_to_where_the_position_is_changes_nothing(lockstep, drilled):
    assert drilled
    said = lockstep("skip", "drill", "--to", "latest", "--reason", "again", "--json").document
    assert (said["changed"], said["skipped"]) == (False, [])


def test_a_request_is_gone_on_with_by_its_number(lockstep, drilled, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(PlainEngine, "read", lambda *_: 1 / 0)
        assert lockstep("replay", "drill", "--partition", "0").code == Exit.UNEXPECTED
    ((request,),) = drilled.ask("select request_id from lockstep.request")
    (waiting,) = lockstep("status", "drill", "--json").document["requests"]
    assert (waiting["request"], waiting["lane"]) == (request, "replay")
    assert f"lockstep replay drill --request {request}" in lockstep("status", "drill").out

    document = lockstep("replay", "drill", "--request", str(request), "--take-over", "--json").document

    assert (document["request"], document["goes_on"], document["decision"]) == (request, True, "done")
    assert lockstep("status", "drill", "--json").document["requests"] == []
    assert check(drilled.dsn, drilled.kafka, "drill", table="public.drill") == []


def test_lines_for_people_say_what_it_means_before_and_what_was_done_after(lockstep, drilled):
    assert drilled
    said = lockstep("replay", "drill", "--partition", "0")
    lines = said.out.splitlines()
    assert said.code == 0
    assert "request 1" in lines[0]
    assert "written" in said.out
    assert lines[-1].startswith("drill: done")
    *_, unchanged, ending = lockstep("replay", "drill", "--partition", "0", "--preview").out.splitlines()
    assert (unchanged, ending) == ("nothing was changed", "drill: previewed: without --preview, it is done")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["replay", "drill"], ["--from"]),
        (["replay", "drill", "--from", "yesterday"], ["--from", "yesterday"]),
        (["replay", "drill", "--from", "0:-1"], ["--from"]),
        (["replay", "drill", "--batch", "1", "--from", "0:0"], ["--batch"]),
        (["skip", "drill", "--reason", "r"], ["--to"]),
        (["fill", "drill", "--request", "0"], ["--request"]),
    ],
    ids=" ".join,
)
def test_a_wrong_call_names_the_option(lockstep, drilled, call, words):
    assert drilled
    assert_wrong_call(lockstep(*call), *words)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["replay", "drill", "--from", "0:0", "--until", "1:9"], ["partition in common"]),
        (["replay", "drill", "--from", "7:0"], ["partition", "lockstep status drill"]),
        (["replay", "drill", "--from", "0:9", "--until", "0:9"], ["-0", "[9, 9)"]),
        (["replay", "drill", "--batch", "4711"], ["4711", "lockstep batches drill"]),
        (["replay", "drill", "--request", "4711"], ["4711"]),
        (["skip", "drill", "--to", "0:999999", "--reason", "r"], ["-0", "999999"]),
    ],
    ids=" ".join,
)
def test_a_refusal_names_what_is_not_there_and_the_next_command(lockstep, drilled, call, words):
    assert drilled
    assert_refused(lockstep(*call), *words)
