"""Tests `holes --explain` and `rejects` on the command line, over a real log."""

from __future__ import annotations

import json

import pytest

from lockstep.cli.batches.rejecting import preview_of
from support.scenes.command_line import assert_refused, assert_wrong_call
from support.scenes.odd_logs import delete_records

POISON = [("k0", b"{bad"), ("\x1b[2Jk1", b"\xff\x00"), ("k2", None)]


def test_gaps_are_told_as_json_and_as_lines(here, lockstep, produce):
    produce(here.drill.topic, [("k", json.dumps({"id": "x", "n": 1}))] * 3, 0, "abort")
    here.drain()

    document = lockstep("holes", "drill", "--explain", "--json").document

    marker = document["gaps"][-1]
    assert set(document) == {"pipeline", "holes", "offsets", "counts", "gaps"}
    assert [(g["kind"], g["count"]) for g in document["gaps"]] == [("aborted", 3), ("marker", 1)]
    assert set(marker) == {"topic", "partition", "from_offset", "until_offset", "kind", "count"}
    assert "aborted" in lockstep("holes", "drill", "--explain").out
    bounds = ("--partition", "0", "--from", f"0:{marker['from_offset']}", "--until", f"0:{marker['until_offset']}")
    assert lockstep("holes", "drill", "--explain", *bounds, "--json").document["gaps"] == [marker]


def test_bounds_without_a_look_are_a_wrong_call(here, lockstep):
    assert_wrong_call(lockstep("holes", "drill", "--partition", "0"), "--explain")
    here.drain()
    assert_refused(lockstep("holes", "drill", "--explain", "--partition", "9"), "partition 9", "lockstep status drill")


def test_rejects_are_listed_counted_and_safe_to_print(here, lockstep, produce):
    produce(here.drill.topic, POISON, 0)
    here.drain()

    document = lockstep("rejects", "drill", "--json").document

    assert document["total"] == 3
    assert sum(each["count"] for each in document["reasons"]) == 3
    assert {"topic", "partition", "offset", "batch", "timestamp", "reason", "key", "value"} <= set(
        document["rejects"][0]
    )
    assert [(r["key"], r["value"]) for r in document["rejects"]] == [
        ("k0", "{bad"),
        ("\\x1b[2Jk1", "\\xff00"),
        ("k2", None),
    ]
    lines = lockstep("rejects", "drill", "--limit", "1")
    assert "\x1b" not in lines.out
    assert "2 more" in lines.out
    assert max(map(len, lines.out.splitlines())) <= 80
    assert lockstep("rejects", "drill", "--partition", "1", "--json").document["rejects"] == []
    batch = document["rejects"][0]["batch"]
    assert lockstep("rejects", "drill", "--batch", str(batch), "--json").document["total"] == 3
    assert lockstep("rejects", "drill", "--batch", str(batch + 1), "--json").document["total"] == 0


def test_a_redrive_runs_rejects_again_under_todays_code_and_moves_no_position(here, lockstep, produce):
    def refuses_round_numbers(value):
        if value["n"] % 50 == 0:
            raise ValueError
        return value

    here.code = refuses_round_numbers
    produce(here.drill.topic, [("q", json.dumps({"id": "q", "n": 1000}))] * 2, 1)
    here.drain()
    positions = here.drill.ask("select stream_id, position from lockstep.stream order by 1")
    before = lockstep("rejects", "drill", "--json").document["total"]
    here.code = lambda value: value

    seen = lockstep("rejects", "drill", "--redrive", "--preview", "--json").document
    done = lockstep("rejects", "drill", "--redrive", "--reason", "mended", "--json").document
    again = lockstep("rejects", "drill", "--redrive", "--json").document

    assert before == 5  # n = 0, 50, 100 of the drill and the two produced here
    assert (seen["preview"], seen["difference"]["rejects"]) == (True, {"before": 5, "after": 0})
    assert (done["lane"], done["decision"], done["rows_rejected"]) == ("replay", "done", 0)
    assert done["rejects"] == {"before": 5, "cleared": 5, "left": 0}
    assert done["reasons"] == done["unreadable"] == seen["unreadable"] == []
    assert (again["request"], again["decision"]) == (None, "idle")
    assert here.drill.ask("select count(*) from public.drill") == [(152,)]
    assert here.drill.ask("select stream_id, position from lockstep.stream order by 1") == positions
    assert here.drill.ask("select distinct why from lockstep.request where not preview") == [("mended",)]
    assert here.drill.violations() == []


def test_rejects_that_cannot_be_read_again_are_refused_by_their_offsets(here, lockstep, produce):
    produce(here.drill.topic, POISON[:1], 0)
    here.drain()
    ((position,),) = here.drill.ask("select position from lockstep.stream where partition = 0")
    delete_records(here.drill.kafka, here.drill.topic, position)

    said = lockstep("rejects", "drill", "--redrive")

    assert_refused(said, f"{here.drill.topic}-0 [0, {position})", f"start {position}", "lockstep rejects drill")
    assert lockstep("rejects", "drill", "--json").document["total"] == 1


@pytest.mark.parametrize(
    ("mixes", "unreadable", "before", "left"),
    [(False, {0: 1}, 4, 3), (True, {0: 1, 1: 2}, 2, 1)],
    ids=["segments apart", "whole batches"],
)
def test_what_cannot_be_read_again_is_told_and_the_rest_is_run_again(
    here, lockstep, produce, mixes, unreadable, before, left
):
    if mixes:
        (here.drill.home / "drill" / "transform.py").write_text("def transform(r):\n    return r\n")
    here.code = lambda value: value if value["n"] < 1000 else int("too much")
    for partition, poison in enumerate((POISON[:1], POISON[:1] * 2)):
        produce(here.drill.topic, poison, partition)
    here.drain()
    ((position,),) = here.drill.ask("select position from lockstep.stream where partition = 0")
    for partition in (0, 1):
        produce(here.drill.topic, [("late", json.dumps({"id": "late", "n": 1000 + partition}))], partition)
    here.drain()
    delete_records(here.drill.kafka, here.drill.topic, position)
    here.code = lambda value: value if value["n"] < 1001 else int("still")

    seen = lockstep("rejects", "drill", "--redrive", "--preview", "--json").document
    words = lockstep("rejects", "drill", "--redrive").out
    again = lockstep("rejects", "drill", "--redrive", "--json").document

    assert {stretch["partition"]: stretch["rejects"] for stretch in seen["unreadable"]} == unreadable
    assert all(
        stretch["why"].endswith(f"begins at 0, below the log's start {position}") for stretch in seen["unreadable"]
    )
    assert seen["difference"]["rejects"] == {"before": before, "after": left}
    assert f"rejects: 1 of {before} cleared, {left} left" in words
    assert f"left as they are: {here.drill.topic}-0 [0, {position}): 1 reject, which cannot be read again" in words
    assert again["rejects"] == {"before": left, "cleared": 0, "left": left}
    assert sum(reason["count"] for reason in again["reasons"]) == left
    assert again["reasons"][-1]["reason"].startswith("refused: invalid literal")
    assert lockstep("rejects", "drill", "--json").document["total"] == 4


def test_a_replay_of_one_partition_takes_the_whole_batch_where_a_transform_may_mix(here, lockstep):
    (here.drill.home / "drill" / "transform.py").write_text("def transform(r):\n    return r\n")
    here.drain()
    document = lockstep("replay", "drill", "--partition", "0", "--json").document
    assert {window["partition"] for window in document["windows"]} == {0, 1, 2}


def test_a_list_takes_no_options_of_a_redrive(here, lockstep):
    assert here
    assert_wrong_call(lockstep("rejects", "drill", "--preview"), "--preview")
    assert_wrong_call(lockstep("rejects", "drill", "--redrive", "--limit", "3"), "--limit")
    assert lockstep("rejects", "drill").out == "drill: no rejects\n"


@pytest.mark.parametrize(
    ("begin", "size", "shown"),
    [
        (b"plain", 5, "plain"),
        (b"a\nb\x07\xe2\x80\xae", 6, "a\\nb\\x07\\u202e"),
        ("aé".encode()[:2], 900, "a..."),
        (b"\xff\xfe", 900, "\\xfffe..."),
        (b"", 0, ""),
        (None, None, None),
    ],
    ids=["text", "what a terminal would obey", "cut through a character", "no text", "empty", "none"],
)
def test_a_preview_is_one_printable_line(begin, size, shown):
    assert preview_of(begin, size) == shown


def test_a_batch_shows_what_an_expectation_put_aside_and_reasons_are_counted_by_expectation(here, lockstep):
    here.rewrite("limits=", "on_violation='quarantine', limits=")
    kind = "expect_column_values_to_be_between"
    suite = {"name": "drill", "expectations": [{"type": kind, "kwargs": {"column": "n", "max_value": 139}}]}
    (here.drill.home / "drill" / "expectations.json").write_text(json.dumps(suite))
    here.drain()

    ((batch,),) = here.drill.ask("select batch_id from lockstep.batch")
    document = lockstep("batch", str(batch), "--json").document
    rejects = lockstep("rejects", "drill", "--json").document

    assert f"10 records quarantined by {kind}(n)" in lockstep("batch", str(batch)).out
    assert (document["rows_rejected"], document["verdict"]["result"]["quarantined"]) == (10, 10)
    assert rejects["reasons"] == [{"reason": f"expectation {kind}(n)", "count": 10}]
    assert {each["reason"] for each in rejects["rejects"]} == {f"expectation {kind}(n): {n}" for n in range(140, 150)}
    assert json.loads(rejects["rejects"][0]["value"])["n"] >= 140


def test_of_all_pipelines_one_that_nobody_has_begun_with_is_a_warning(here, lockstep):
    other = here.drill.home / "other"
    other.mkdir()
    text = (here.drill.home / "drill" / "__init__.py").read_text()
    text = text.replace('name="drill"', 'name="other"').replace("public.drill", "public.other")
    (other / "__init__.py").write_text(text.replace(here.drill.topic, "no-such-topic"))

    every = lockstep("doctor", "--json").document
    alone = lockstep("doctor", "other", "--json").document
    status = lockstep("status", "--json")

    (found,) = [f for f in every["findings"] if "other" in f["subject"] or "no-such-topic" in f["subject"]]
    assert (found["severity"], found["subject"], found["check"]) == ("warning", "pipeline other", "definition")
    assert {f["subject"] for f in alone["findings"] if f["severity"] == "problem"} >= {
        "topic no-such-topic",
        "table public.other",
    }
    assert found["found"] == "not begun yet: table public.other and topic no-such-topic are not there"
    assert found["remedy"] == "lockstep migrate other"
    assert status.code == 0
    assert [each["pipeline"] for each in status.document["pipelines"]] == ["drill", "other"]


def test_what_nobody_has_begun_with_is_a_warning_though_its_topic_is_there_or_it_has_two_tables(here, lockstep):
    text = (here.drill.home / "drill" / "__init__.py").read_text()
    for name, changes in {
        "sharing": (("public.drill", "public.sharing"),),
        "two": (
            ('Append("public.drill")', '(Append("public.two"), Append("public.more"))'),
            (here.drill.topic, "no-such-topic"),
        ),
    }.items():
        (here.drill.home / name).mkdir()
        made = text.replace('name="drill"', f'name="{name}"')
        for old, new in changes:
            assert old in made
            made = made.replace(old, new)
        (here.drill.home / name / "__init__.py").write_text(made)

    here.drain()
    document = lockstep("doctor", "--json").document

    told = {f["subject"]: (f["severity"], f["found"]) for f in document["findings"] if f["check"] == "definition"}
    assert told == {
        "pipeline sharing": ("warning", "not begun yet: table public.sharing is not there"),
        "pipeline two": (
            "warning", "not begun yet: table public.more and table public.two and topic no-such-topic are not there"
        ),
    }  # fmt: skip
    assert [
        f for f in document["findings"] if f["subject"].removeprefix("table ") in {"public.two", "public.more"}
    ] == []
