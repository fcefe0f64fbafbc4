"""Tests that `lockstep verify` says what it compared: to a person in its last lines, to a program in fixed fields."""

from __future__ import annotations

import json
import re

import pytest

from support.scenes.command_line import assert_refused, assert_wrong_call
from support.scenes.here import into_two


def test_verify_says_in_its_last_line_what_was_compared(lockstep, here):
    here.drain()

    said = lockstep("verify", "drill")
    assert (said.code, said.out.splitlines()[-1]) == (
        0,
        (
            "drill: every check holds. public.drill: coordinates and contents compared with the ledger."
            " The ledger's digests prove contents against accidents, not against a forger."
            "  Next: lockstep verify drill --deep"
        ),
    )
    deep = lockstep("verify", "drill", "--deep")
    last = "drill: every check holds. public.drill: coordinates and contents compared with Kafka."
    assert (deep.code, deep.out.splitlines()[-1]) == (0, last)


def test_what_was_not_compared_has_a_line_of_its_own(lockstep, here):
    (here.drill.home / "drill" / "transform.py").write_text("def transform(records):\n    return records\n")
    here.engine.folder.transform  # noqa: B018 - the folder has one now
    said = lockstep("verify", "drill", "--deep")
    line = "not compared: no batch is there to be run again  (every row is what its record says)"
    assert line in said.out.splitlines()


def test_the_document_of_verify_has_fixed_fields(lockstep, here):
    here.drain()
    here.drill.ask("update public.drill set n = -1 where n = 7 returning 1")

    said = lockstep("verify", "drill", "--deep", "--json")

    document = said.document
    assert said.code == 1
    assert list(document) == [
        "pipeline",
        "ok",
        "deep",
        "since",
        "proved",
        "offsets",
        "not_compared",
        "checks",
        "conclusion",
        "next_command",
    ]
    assert (document["pipeline"], document["ok"], document["deep"]) == ("drill", False, True)
    sides = {"target": "public.drill", "coordinates": "log", "contents": "wrong"}
    assert document["proved"] == [sides | {"coordinates_part": None, "contents_part": None}]
    assert document["not_compared"] == []
    fields = {"name", "ok", "detail", "proves", "target", "against", "left_out", "batches", "share"}
    assert all(set(check) == fields for check in document["checks"])
    failed = [check for check in document["checks"] if not check["ok"]]
    assert {(c["proves"], c["against"], c["target"]) for c in failed} == {
        ("contents", "ledger", "public.drill"),
        ("contents", "log", "public.drill"),
    }
    assert document["conclusion"].startswith("drill: NOT every check holds: 2 of ")
    ((batch,),) = here.drill.ask("select _batch from public.drill where n = -1")
    assert [check["batches"] for check in failed] == [[batch]] * 2
    assert document["next_command"] == f"lockstep replay drill --batch {batch}"
    assert lockstep("verify", "drill").out.splitlines()[-1].endswith(f"  Next: lockstep replay drill --batch {batch}")
    assert lockstep("replay", "drill", "--batch", str(batch)).code == 0
    assert lockstep("verify", "drill", "--deep", "--json").document["ok"]


def test_a_definition_that_is_not_the_ledgers_is_refused_in_one_line(lockstep, here):
    here.drain()
    here.rewrite('Append("public.drill")', 'Append("public.elsewhere")')

    said = lockstep("verify", "drill")

    assert said.code == 1
    assert "its target was" in said.err
    assert "every check holds" not in said.out


def test_the_help_says_what_is_compared(lockstep):
    said = " ".join(lockstep("verify", "--help").out.split())
    assert "coordinates" in said
    assert "contents" in said
    assert "A transform is run again" in said


def test_since_a_batch_its_rows_and_later_ones_are_looked_at_and_the_rest_is_named(lockstep, here, produce):
    here.drain()
    for new in ("b", "c"):
        produce(here.drill.topic, [("k", f'{{"id": "{new}", "n": 7}}')])
        here.drain()
    here.drill.ask("update public.drill set n = -1 where id = 'r3' returning 1")
    assert lockstep("verify", "drill").code == 1

    said = lockstep("verify", "drill", "--since", "2", "--deep")

    assert (said.code, said.err) == (0, "")
    assert re.search(
        r"every check holds, for 2 batches since 20\S+Z; 1 earlier ones were not looked at\. public\.drill: "
        r"coordinates and contents compared with Kafka\.$",
        said.out.splitlines()[-1],
    )
    assert re.search(r"\nnot compared: rows of 1 batches that committed before 20\S+Z, and rows at offsets", said.out)
    assert "2 records decoded again and compared" in said.out
    shallow = lockstep("verify", "drill", "--since", "2", "--json").document
    assert (shallow["ok"], shallow["since"]["batches"], shallow["since"]["before"]) == (True, 2, 1)
    by_time = lockstep("verify", "drill", "--since", shallow["since"]["moment"][:-1], "--json").document
    assert by_time["since"]["batches"] >= 2
    assert lockstep("verify", "drill", "--since", "2100-01-01").code == 0
    found = lockstep("verify", "drill", "--since", "1", "--json").document
    assert [check["name"] for check in found["checks"] if not check["ok"]] == ["contents are those that were committed"]


FORGED = {
    "another value": ("update public.drill set n = -1 where id = 'b'", "the 1 rows in public.drill are not those"),
    "a row that is gone": ("delete from public.drill where id = 'b'", "1 rows recorded, 0 are in the target"),
    "another batch": ("update public.drill set _batch = 1 where id = 'b'", "names batch 1, which does not own it"),
}


def test_since_a_batch_each_forged_row_of_it_is_found(lockstep, here, produce):
    here.drain()
    produce(here.drill.topic, [("k", '{"id": "b", "n": 7}')])
    here.drain()
    here.drill.ask("create table kept as select * from public.drill where id = 'b'; select 1")
    for statement, words in FORGED.values():
        here.drill.ask(f"{statement} returning 1")
        for how in ((), ("--deep",)):
            said = lockstep("verify", "drill", "--since", "2", *how)
            assert said.code == 1, said
            assert words in said.out
        here.drill.ask(
            "delete from public.drill where id = 'b'; insert into public.drill select * from kept returning 1"
        )
    assert lockstep("verify", "drill", "--since", "2").code == 0


def test_verify_counts_the_offsets_that_were_given_up_instead_of_every_record(lockstep, here, produce):
    here.drain()
    ((partition, position),) = here.drill.ask("select partition, position from lockstep.stream order by 1 limit 1")
    produce(here.drill.topic, [(f"k{n}", json.dumps({"id": f"x{n}", "n": n})) for n in range(4)], partition)
    assert lockstep("skip", "drill", "--to", f"{partition}:{position + 1}", "--reason", "a test").code == 0
    here.drain()

    deep = lockstep("verify", "drill", "--deep")

    ((passed,),) = here.drill.ask("select sum(upper(offsets) - lower(offsets)) from lockstep.coverage")
    counted = f"{passed - 1} of {passed} offsets; 1 skipped by decision 1"
    assert f"drill: every check holds. {counted}. public.drill:" in deep.out.splitlines()[-1]
    assert f"-{partition}: {position + 3} of {position + 4} offsets; 1 skipped by decision 1" in deep.out
    assert lockstep("verify", "drill", "--json").document["offsets"] == {
        "passed": passed,
        "read": passed - 1,
        "lost": 0,
        "skipped": 1,
        "decisions": [1],
    }


def test_a_loss_that_the_log_still_holds_is_named(lockstep, here, produce):
    here.drain()
    ((s, partition, position),) = here.drill.ask("select stream_id, partition, position from lockstep.stream limit 1")
    produce(here.drill.topic, [(f"k{n}", json.dumps({"id": f"x{n}", "n": n})) for n in range(4)], partition)
    detail = f'{{"stream_id": {s}, "from_offset": {position}, "until_offset": {position + 2}}}'
    here.drill.ask(
        "select set_config('lockstep.ledger_version', max(version)::text, false) from lockstep.migration;"
        "insert into lockstep.decision (pipeline, kind, who, why, detail) values"
        f" ('drill', 'accept-loss', 'me', 'because', '{detail}');"
        f"insert into lockstep.coverage values ({s}, '[{position},{position + 2})', 'loss');"
        f"update lockstep.stream set position = {position + 2} where stream_id = {s} returning 1"
    )
    assert lockstep("verify", "drill").code == 0
    deep = lockstep("verify", "drill", "--deep")
    assert deep.code == 1
    assert f"-{partition}: offsets [{position}, {position + 2}) are lost, and can still be read" in deep.out


def test_a_stream_that_leaves_offsets_out_without_a_decision_is_named_with_them(lockstep, here, produce):
    here.drain()
    ((s, partition, position),) = here.drill.ask("select stream_id, partition, position from lockstep.stream limit 1")
    produce(here.drill.topic, [(f"k{n}", json.dumps({"id": f"x{n}", "n": n})) for n in range(4)], partition)
    begin = position + 2
    here.drill.ask(
        f"set role lockstep_owner; update lockstep.stream set retired_at = clock_timestamp() where stream_id = {s};"
        "insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset,"
        f" position) select pipeline, cluster_id, topic, topic_id, partition, incarnation + 1, epoch + 1, {begin}, {begin}"
        f" from lockstep.stream where stream_id = {s} returning 1"
    )
    here.drain()

    said, deep = lockstep("verify", "drill"), lockstep("verify", "drill", "--deep")

    assert (said.code, deep.code) == (1, 1)
    left_out = f"[{position}, {begin})"
    assert (
        f"begins at offset {begin}: {left_out} were not read, and no decision says so; next: lockstep batches"
        in said.out
    )
    assert f"stream {s} ended at offset {position}, and no decision says so" in said.out
    assert f"{left_out} can be read, and no decision leaves them out; next: lockstep batches drill" in deep.out


@pytest.mark.usefixtures("here")
def test_since_what_no_batch_or_time_is_is_refused(lockstep):
    assert_refused(
        lockstep("verify", "drill", "--since", "7"), "it has no batch 7 that has committed", "lockstep batches"
    )
    assert_refused(lockstep("verify", "drill", "--since", "0:5"), "takes a time or the number of a batch")
    assert_refused(lockstep("verify", "drill", "--since", "yesterday"), "--since")
    assert_wrong_call(lockstep("verify", "--certificate", "x", "--public-key", "y", "--since", "1"), "--since")


def test_a_count_goes_on_after_a_row_that_was_deleted_by_hand_came_back(lockstep, here):
    into_two(here.drill)
    here.drain()
    said = lockstep("recount", "drill", "--reason", "r")
    assert said.out.splitlines() == ["drill: every table has as many rows as its commits have left"]
    here.drill.ask("delete from public.newest where id = 'r7' returning 1")
    gone = lockstep("recount", "drill", "--reason", "r")
    assert_refused(gone, "public.newest", "its row is missing", "Next: lockstep replay drill --batch 1")
    here.replay("1", "1")

    assert lockstep("verify", "drill").code == 1
    said = lockstep("verify", "drill", "--deep")
    assert said.out.splitlines()[-1].endswith("  Next: lockstep recount drill --reason ...")
    document = lockstep("recount", "drill", "--reason", "back by its replay", "--json").document
    one = {"target": "public.newest", "expected": 151, "found": 150}
    assert document == {"pipeline": "drill", "recounted": [one], "changed": True}
    assert here.drill.ask("select who <> '', why from lockstep.decision where kind = 'recount'") == [
        (True, "back by its replay")
    ]
    assert (lockstep("verify", "drill").code, lockstep("verify", "drill", "--deep").code) == (0, 0)
